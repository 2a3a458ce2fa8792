"""Imports transcripts of other tools. One module for each format turns a file into steps (`steps`), and `writing`
stores the steps: a new format needs a reader and a line in `detecting`."""

from typing import Literal, TypeAlias, get_args

TranscriptFormat: TypeAlias = Literal["claude-code", "codex", "pi", "chatgpt", "hermes"]
FORMATS: tuple[TranscriptFormat, ...] = get_args(TranscriptFormat)
