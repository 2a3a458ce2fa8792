"""The summaries of the demo: a scene dictates what the model writes, since there is no model to ask. They are made by
`compact`, like those of a real agent, so that the inspector can say why and by which model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from frontdesk.messages import Message
from frontdesk.models.completion import Completion, ModelUsage

_MODEL = "claude-haiku-5"
_DICTATED = re.compile(r"<dictated>(.*)</dictated>", re.DOTALL)
_LONG = 2_000
_KEPT, _KEPT_OF_LONG = 4, 800
"""messages at the end of a session that are not summarised"""


def dictate(summary: str) -> str:
    """The instructions for a summary with this text."""
    return f"<dictated>{summary}</dictated>"


def take_dictation(prompt: str) -> Completion:
    """The model: it writes what the prompt dictates."""
    found = _DICTATED.search(prompt)
    text = "" if found is None else found[1]
    return Completion(text, model=_MODEL, usage=ModelUsage(len(prompt) // 4, len(text) // 4))


def plan_all_but_the_last(messages: Sequence[Message], **_: Any) -> tuple[int, int]:
    """The planner: everything except the last messages, and no tool call without its result."""
    end = len(messages) - (_KEPT_OF_LONG if len(messages) > _LONG else _KEPT)
    while messages[end].role == "tool":
        end -= 1
    return 0, end - 1
