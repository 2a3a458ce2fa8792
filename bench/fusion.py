"""What the fusion of words and vectors gains: `python -m bench.fusion [--locomo PATH]`.

The share of the evidence for LoCoMo's questions among the first hits in the right conversation, by words, by vectors
and by both, for embeddings from worthless to good. None of them is a real model. Random vectors, hashed letters and
latent semantics represent poor embeddings; vectors made from the answers themselves, with noise, represent good ones.
"""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from frontdesk.search.fusion import fuse
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import TOKENISER

Matrix = Any
_DEPTHS = (1, 5, 10, 20)
_LOCOMO = Path("../shared/data/locomo_dev.json")
_TURN_ID = re.compile(r"D\d+:\d+")
_NO_ANSWER = 5
_DIMENSIONS = 256
_NEAREST = 50
_MAX_LOSS = 1.0


class Conversation(NamedTuple):
    """Texts in their order, and questions with the numbers of the texts that answer them and the hits by words."""

    texts: list[str]
    questions: list[str]
    evidence: list[set[int]]
    by_words: list[list[tuple[int, float]]]


def load(path: Path) -> list[Conversation]:
    return [_conversation(sample) for sample in json.loads(path.read_text())]


def _conversation(sample: dict[str, Any]) -> Conversation:
    spoken = sample["conversation"]
    turns = [turn for key in spoken if isinstance(spoken[key], list) for turn in spoken[key]]
    texts = [f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption') or ''}".strip() for turn in turns]
    numbers = {turn["dia_id"]: number for number, turn in enumerate(turns)}
    questions, evidence = [], []
    for asked in sample["qa"]:
        named = _TURN_ID.findall(" ".join(asked.get("evidence") or ()))
        answers = {numbers[name] for name in named if name in numbers}
        if asked["category"] != _NO_ANSWER and answers:
            questions.append(asked["question"])
            evidence.append(answers)
    by_words = [rank_texts(question, texts, TOKENISER, consecutive=True) for question in questions]
    return Conversation(texts, questions, evidence, by_words)


def _unit(matrix: Matrix) -> Matrix:
    return matrix / numpy.maximum(numpy.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)


def _random(conversation: Conversation) -> tuple[Matrix, Matrix]:
    rng = numpy.random.default_rng(1)
    return tuple(_unit(rng.normal(size=(len(part), _DIMENSIONS))) for part in conversation[:2])


def _letters(conversation: Conversation) -> tuple[Matrix, Matrix]:
    def counts(text: str) -> list[int]:
        row = [0] * _DIMENSIONS
        for start in range(len(text) - 2):
            row[zlib.crc32(text[start : start + 3].lower().encode()) % _DIMENSIONS] += 1
        return row

    return tuple(_unit(numpy.array([counts(text) for text in part])) for part in conversation[:2])


def _latent(conversation: Conversation) -> tuple[Matrix, Matrix]:
    """Latent semantics of the conversation itself."""
    lines = [[TOKENISER.terms(text) for text in part] for part in conversation[:2]]
    vocabulary = {term: number for number, term in enumerate(sorted({term for line in lines[0] for term in line}))}
    counted = [numpy.zeros((len(part), len(vocabulary))) for part in lines]
    for matrix, part in zip(counted, lines, strict=True):
        for number, line in enumerate(part):
            for term in line:
                if term in vocabulary:
                    matrix[number, vocabulary[term]] += 1
    rarity = numpy.log(len(lines[0]) / (counted[0] > 0).sum(axis=0))
    texts, questions = (numpy.log1p(matrix) * rarity for matrix in counted)
    _, _, directions = numpy.linalg.svd(_unit(texts), full_matrices=False)
    axes = directions[:100].T
    return _unit(texts @ axes), _unit(questions @ axes)


def _knowing(noise: float) -> Callable[[Conversation], tuple[Matrix, Matrix]]:
    """Vectors that know the answers to all questions, with some noise."""

    def vectors(conversation: Conversation) -> tuple[Matrix, Matrix]:
        rng = numpy.random.default_rng(2)
        questions = _unit(rng.normal(size=(len(conversation.questions), _DIMENSIONS)))
        texts = noise * _unit(rng.normal(size=(len(conversation.texts), _DIMENSIONS)))
        for question, answers in zip(questions, conversation.evidence, strict=True):
            texts[sorted(answers)] += question
        return _unit(texts), questions

    return vectors


EMBEDDINGS: dict[str, tuple[bool, Callable[[Conversation], tuple[Matrix, Matrix]]]] = {
    "random": (False, _random),
    "letters": (False, _letters),
    "latent": (False, _latent),
    "knowing, faint": (True, _knowing(8)),
    "knowing": (True, _knowing(5)),
    "knowing, clear": (True, _knowing(3)),
}


def recall(conversations: Sequence[Conversation], rankings: Sequence[Sequence[Sequence[int]]]) -> list[float]:
    """The percentage of the evidence within each depth; all questions have the same weight."""
    shares = [
        [len(answers.intersection(ranking[:depth])) / len(answers) for depth in _DEPTHS]
        for conversation, ranked in zip(conversations, rankings, strict=True)
        for answers, ranking in zip(conversation.evidence, ranked, strict=True)
    ]
    return [100 * sum(column) / len(shares) for column in zip(*shares, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, default=_LOCOMO)
    path = parser.parse_args().locomo
    if not path.exists():
        print(f"{path} does not exist: nothing to measure")
        return
    conversations = load(path)
    words = recall(conversations, [[[hit for hit, _ in found] for found in one.by_words] for one in conversations])
    print(f"{'share of the evidence within the first':40}" + "".join(f"{depth:>8}" for depth in _DEPTHS))
    print(f"{'words alone':40}" + _percents(words))
    for name, (is_good, embed) in EMBEDDINGS.items():
        near, both = [], []
        for one in conversations:
            texts, questions = embed(one)
            close = [numpy.argsort(-row, kind="stable")[:_NEAREST].tolist() for row in questions @ texts.T]
            near.append(close)
            both.append([[hit for hit, _ in fuse(*pair)] for pair in zip(one.by_words, close, strict=True)])
        fused = recall(conversations, both)
        print(f"{name + ': vectors alone':40}" + _percents(recall(conversations, near)))
        print(f"{name + ': both':40}" + _percents(fused) + _verdict(words[2], fused[2], is_good))


def _percents(shares: Sequence[float]) -> str:
    return "".join(f"{share:>7.1f}%" for share in shares)


def _verdict(words: float, fused: float, is_good: bool) -> str:
    kept = fused > words if is_good else fused >= words - _MAX_LOSS
    return f"   {fused - words:+.1f} at 10, {'as promised' if kept else 'NOT AS PROMISED'}"


if __name__ == "__main__":
    main()
