"""The quality and speed of search: `python -m bench.search [--quick]`.

With LoCoMo (see `--locomo`): the share of the evidence for its questions among the first hits, when searching the right
conversation and all conversations. And the speed of searching and indexing a generated corpus in SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.speed import measure_speed
from frontdesk import SearchResults, SessionManager

_DEPTHS = (1, 5, 10, 20)
_TURN_ID = re.compile(r"D\d+:\d+")
_NO_ANSWER = 5
_TARGET = 0.70
_LOCOMO = Path("../shared/data/locomo_dev.json")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the messages (session id, message id) that answer it."""

    text: str
    evidence: frozenset[tuple[str, str]]


async def load(manager: SessionManager, path: Path) -> dict[str, list[Question]]:
    """Append each conversation as a session, and return their questions."""
    questions: dict[str, list[Question]] = {}
    for sample in json.loads(path.read_text()):
        name, spoken = sample["sample_id"], sample["conversation"]
        turns = [turn for key in spoken if isinstance(spoken[key], list) for turn in spoken[key]]
        first = spoken["speaker_a"]
        await manager.session(name).append_all([_message(turn, first) for turn in turns])
        known = {turn["dia_id"] for turn in turns}
        questions[name] = [question for qa in sample["qa"] if (question := _question(name, qa, known))]
    return questions


def _message(turn: dict[str, Any], first_speaker: str) -> dict[str, Any]:
    caption = turn.get("blip_caption")
    picture = f" [picture: {caption}]" if caption else ""
    return {
        "id": turn["dia_id"],
        "role": "user" if turn["speaker"] == first_speaker else "assistant",
        "content": f"{turn['speaker']}: {turn['text']}{picture}",
    }


def _question(session: str, qa: dict[str, Any], known: set[str]) -> Question | None:
    evidence = {(session, turn_id) for entry in qa["evidence"] for turn_id in _TURN_ID.findall(entry)}
    evidence = {pair for pair in evidence if pair[1] in known}
    return Question(qa["question"], frozenset(evidence)) if evidence and qa["category"] != _NO_ANSWER else None


async def recall(questions: list[Question], ask: Callable[[str], Awaitable[SearchResults]]) -> dict[int, float]:
    """The mean share of the evidence among the first hits, by the number of hits."""
    shares = dict.fromkeys(_DEPTHS, 0.0)
    for question in questions:
        hits = [(hit.session_id, hit.message_id) for hit in await ask(question.text)]
        for depth in _DEPTHS:
            shares[depth] += len(question.evidence.intersection(hits[:depth])) / len(question.evidence)
    return {depth: share / len(questions) for depth, share in shares.items()}


async def measure_recall(path: Path, every: int) -> None:
    async with SessionManager("memory://") as manager:
        by_session = await load(manager, path)
        await manager.reindex()
        asked = {name: questions[::every] for name, questions in by_session.items()}
        total = sum(map(len, asked.values()))
        print(f"LoCoMo: {total} questions, {len(asked)} conversations; evidence among the first hits")
        inside = dict.fromkeys(_DEPTHS, 0.0)
        for name, questions in asked.items():
            session = manager.session(name)
            found = await recall(questions, partial(session.search, limit=_DEPTHS[-1]))
            inside = {depth: inside[depth] + found[depth] * len(questions) / total for depth in _DEPTHS}
        everything = [question for questions in asked.values() for question in questions]
        across = await recall(everything, partial(manager.search, limit=_DEPTHS[-1]))
    for label, figures in (("in the right conversation", inside), ("across all of them", across)):
        print(f"  {label:26}" + "".join(f"   {depth:>2}: {figures[depth]:6.1%}" for depth in _DEPTHS))
    verdict = "PASS" if inside[10] >= _TARGET else "MISSED"
    print(f"  {verdict}   at 10 in the right conversation: {inside[10]:.1%}, target >= {_TARGET:.0%}")


async def _run(arguments: argparse.Namespace) -> None:
    if arguments.locomo.exists():
        await measure_recall(arguments.locomo, 4 if arguments.quick else 1)
    else:
        print(f"no {arguments.locomo}: recall is not measured")
    await measure_speed(20_000 if arguments.quick else arguments.messages)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the questions and a small corpus")
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many to search in (default: %(default)s)")
    parser.add_argument("--locomo", type=Path, default=_LOCOMO, help="a LoCoMo file (default: %(default)s)")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
