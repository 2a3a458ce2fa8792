"""How much of the evidence for a question is among the first hits, by conversation, compared with FTS5 and bm25s.

Weights are judged by leaving out one conversation at a time: they are chosen on the others, from a small grid, and
measured on the one that was left out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench import minilm
from bench.locomo import Conversation, load, with_pronouns
from frontdesk import SessionManager
from frontdesk.moments import to_microseconds
from frontdesk.search.fields import text_terms
from frontdesk.search.languages import STOP_WORDS
from frontdesk.search.query import Query, parse
from frontdesk.search.ranking import (
    COMPARED,
    NEAREST,
    Candidate,
    FieldWeights,
    Matcher,
    Statistics,
    add_fields,
    fuse,
    rank_by_words,
)
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.store import Address

DEPTH = 10
_LEXICAL_TARGET, _FUSED_TARGET = 77.0, 79.0
_GRID = [FieldWeights(*values) for values in product((2.0, 3.0, 4.0), (2.0, 4.0, 6.0), (0.8, 0.9, 1.0))]
_VECTOR_WEIGHTS = (0.1, 0.2, 0.3)
_WORD = re.compile(r"\w+")

Search = Callable[[str], list[str]]
"""from a question to the ids of messages, best first"""


async def measure_relevance(path: Path) -> None:
    conversations = load(path)
    names = "".join(f"{one.name:>9}" for one in conversations)
    count = sum(len(one.questions) for one in conversations)
    print(f"LoCoMo: {count} questions; evidence among the first {DEPTH} hits in the right conversation, in percent")
    print(f"  {'':44}{names}      all", flush=True)
    _show("FTS5 (any word, porter, stop list)", conversations, [_fts5(one) for one in conversations])
    if find_spec("bm25s") is not None:
        _show("bm25s (same words and stop list)", conversations, [_bm25s(one) for one in conversations])
    for label, named, pronouns in (
        ("with author names", True, False),
        ('without names, questions with "I" and "you"', False, True),
        ("without names, questions with names", False, False),
    ):
        asked = [with_pronouns(one) if pronouns else one for one in conversations]
        await _show_public(label, asked, named=named)
    ranked = [_Ranked(one) for one in conversations]
    figure = _leave_one_out("weights chosen on the other conversations", ranked, _best_fields)
    _verdict("by words", figure, _LEXICAL_TARGET)
    if minilm.is_installed():
        figure = _leave_one_out("the same with MiniLM vectors", ranked, _best_vector_weight)
        _verdict("by words and vectors", figure, _FUSED_TARGET)
    else:
        print("  no model (requirements/model.txt): vectors are not measured")


def _show(label: str, conversations: Sequence[Conversation], searches: Sequence[Search]) -> float:
    shares = [
        [question.recall(search(question.text), DEPTH) for question in conversation.questions]
        for conversation, search in zip(conversations, searches, strict=True)
    ]
    return _print(label, shares)


def _print(label: str, shares: Sequence[Sequence[float]]) -> float:
    every = [share for one in shares for share in one]
    figure = 100 * sum(every) / len(every)
    columns = "".join(f"{100 * sum(one) / len(one):9.1f}" for one in shares)
    print(f"  {label:44}{columns}{figure:9.1f}", flush=True)
    return figure


def _verdict(label: str, figure: float, target: float) -> None:
    print(f"  {'PASS' if figure >= target else 'MISSED'}   {label}: {figure:.1f}, target >= {target:g}", flush=True)


# through the public API


async def _show_public(label: str, conversations: Sequence[Conversation], *, named: bool) -> None:
    async with SessionManager("memory://") as manager:
        for conversation in conversations:
            said = [one.to_message(named=named) for one in conversation.said]
            await manager.session(conversation.name).append_all(said)
        await manager.reindex()
        inside = [await _recall(manager, one, everywhere=False) for one in conversations]
        across = [await _recall(manager, one, everywhere=True) for one in conversations]
    _print(label, inside)
    _print("  across all conversations", across)


async def _recall(manager: SessionManager, conversation: Conversation, *, everywhere: bool) -> list[float]:
    search = manager.search if everywhere else manager.session(conversation.name).search
    shares = []
    for question in conversation.questions:
        hits = await search(question.text, limit=DEPTH)
        found = [hit.message_id if hit.session_id == conversation.name else "" for hit in hits]
        shares.append(question.recall(found, DEPTH))
        await asyncio.sleep(0)
    return shares


# others


def _words(text: str) -> list[str]:
    stop = _stop_words()
    return [word for word in _WORD.findall(text.lower()) if word not in stop]


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(STOP_WORDS["english"].split())


def _texts(conversation: Conversation) -> list[str]:
    return [f"{one.speaker}: {one.text}" for one in conversation.said]


def _fts5(conversation: Conversation) -> Search:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61')")
    connection.executemany("INSERT INTO texts (text) VALUES (?)", [(text,) for text in _texts(conversation)])

    def search(question: str) -> list[str]:
        query = " OR ".join(f'"{word}"' for word in _words(question))
        statement = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?"
        return [conversation.said[row - 1].id for (row,) in connection.execute(statement, (query, DEPTH))]

    return search


def _bm25s(conversation: Conversation) -> Search:
    bm25s: Any = import_module("bm25s")
    retriever = bm25s.BM25()
    tokens = [[term for word in _words(text) for term in TOKENISER.terms(word)] for text in _texts(conversation)]
    retriever.index(tokens, show_progress=False)

    def search(question: str) -> list[str]:
        terms = [term for word in _words(question) for term in TOKENISER.terms(word)]
        found, _ = retriever.retrieve([terms], k=DEPTH, show_progress=False)
        return [conversation.said[number].id for number in found[0]]

    return search


# leaving out one conversation at a time


class _Scored(NamedTuple):
    """A question, the candidates for it, and their scores by words."""

    query: Query
    numbers: list[int]
    candidates: list[Candidate]
    by_words: list[float]


class _Ranked:
    """A conversation whose questions are ranked by words once, so that other weights can be tried fast."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        texts = [
            text_terms(f"{one.speaker}: {one.text}", one.speaker, one.role, TOKENISER) for one in conversation.said
        ]
        times = [to_microseconds(one.at) for one in conversation.said]
        self._scored = [self._score(question.text, texts, times) for question in conversation.questions]
        self._vectors: Any = None
        self._shares: dict[tuple[FieldWeights, float], list[float]] = {}

    def _score(self, text: str, texts: Sequence[list[str]], times: Sequence[int]) -> _Scored:
        query = parse(text, TOKENISER)
        matcher, statistics = Matcher(query), Statistics()
        found = [matcher.match(terms, statistics) for terms in texts]
        numbers = [number for number, one in enumerate(found) if one is not None]
        candidates = [Candidate(one, 0, number, times[number]) for number, one in enumerate(found) if one is not None]
        return _Scored(query, numbers, candidates, rank_by_words(query, candidates, statistics))

    def shares(self, weights: FieldWeights, vector_weight: float = 0.0) -> list[float]:
        """For each question, the share of its evidence among the first hits."""
        if (weights, vector_weight) not in self._shares:
            self._shares[weights, vector_weight] = self._measure(weights, vector_weight)
        return self._shares[weights, vector_weight]

    def _measure(self, weights: FieldWeights, vector_weight: float) -> list[float]:
        found = [
            self._fused(index, ranked, vector_weight) if vector_weight else [number for number, _ in ranked]
            for index, ranked in enumerate(self._lexical(scored, weights) for scored in self._scored)
        ]
        return [
            question.recall([self.conversation.said[number].id for number in numbers], DEPTH)
            for question, numbers in zip(self.conversation.questions, found, strict=True)
        ]

    def _lexical(self, scored: _Scored, weights: FieldWeights) -> list[tuple[int, float]]:
        scores = add_fields(scored.query, scored.candidates, scored.by_words, weights)
        pairs = [(number, score) for number, score in zip(scored.numbers, scores, strict=True) if score > 0]
        return sorted(pairs, key=lambda pair: (-pair[1], -pair[0]))

    def _fused(self, index: int, lexical: Sequence[tuple[int, float]], weight: float) -> list[int]:
        if self._vectors is None:
            questions = [question.text for question in self.conversation.questions]
            self._vectors = minilm.embed(_texts(self.conversation)), minilm.embed(questions)
        texts, questions = self._vectors
        cosines = texts @ questions[index]
        nearest = [Address("message", 0, int(number)) for number in (-cosines).argsort()[:COMPARED]]
        similarities = {address: float(cosines[address.position]) for address in nearest}
        found = [(Address("message", 0, number), score) for number, score in lexical]
        return [address.position for address, _ in fuse(found, nearest[:NEAREST], similarities, weight)]


Chosen = tuple[FieldWeights, float]


def _leave_one_out(label: str, ranked: Sequence[_Ranked], choose: Callable[[Sequence[_Ranked]], Chosen]) -> float:
    shares, chosen = [], []
    for one in ranked:
        chosen.append(choose([other for other in ranked if other is not one]))
        shares.append(one.shares(*chosen[-1]))
    figure = _print(label, shares)
    described = {f"author {w.author:g}, date {w.date:g}, question {w.question:g}, vectors {v:g}" for w, v in chosen}
    print(f"    chosen: {'; '.join(sorted(described))}")
    return figure


def _best_fields(others: Sequence[_Ranked]) -> Chosen:
    return max(((weights, 0.0) for weights in _GRID), key=lambda chosen: _mean(others, chosen))


def _best_vector_weight(others: Sequence[_Ranked]) -> Chosen:
    return max(((FieldWeights(), weight) for weight in _VECTOR_WEIGHTS), key=lambda chosen: _mean(others, chosen))


def _mean(ranked: Sequence[_Ranked], chosen: Chosen) -> float:
    shares = [share for one in ranked for share in one.shares(*chosen)]
    return sum(shares) / len(shares)
