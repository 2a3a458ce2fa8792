"""How well search finds, and how long it takes: `python -m bench.search [--quick]`.

With LoCoMo (see `--locomo`), the share of the evidence of its questions among the first hits, asked of the right
conversation and of all of them together; and the time of a search over generated conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from frontdesk import SearchResults, SessionManager

_DEPTHS = (1, 5, 10, 20)
_TURN_ID = re.compile(r"D\d+:\d+")
_NO_ANSWER = 5
_AIM = 0.70
_LOCOMO = Path("../shared/data/locomo_dev.json")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the messages (session id, message id) that answer it."""

    text: str
    evidence: frozenset[tuple[str, str]]


async def load(manager: SessionManager, path: Path) -> dict[str, list[Question]]:
    """Append the conversations, each as a session, and give their questions."""
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
    """The mean share of the evidence among the first hits, by how many of them are looked at."""
    shares = dict.fromkeys(_DEPTHS, 0.0)
    for question in questions:
        hits = [(hit.session_id, hit.message_id) for hit in await ask(question.text)]
        for depth in _DEPTHS:
            shares[depth] += len(question.evidence.intersection(hits[:depth])) / len(question.evidence)
    return {depth: share / len(questions) for depth, share in shares.items()}


async def measure_recall(path: Path, every: int) -> None:
    async with SessionManager("memory://") as manager:
        by_session = await load(manager, path)
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
    verdict = "PASS" if inside[10] >= _AIM else "MISSED"
    print(f"  {verdict}   at 10 in the right conversation: {inside[10]:.1%}, target >= {_AIM:.0%}")


_KINDS = {
    "rare word": "zanzibar",
    "common word": "report",
    "question": "what did we decide about the report for zanzibar?",
    "phrase": '"nightly report"',
    "prefix": "zanz*",
    "Chinese": "部署",
}
_WORDS = """
    the report server queue cache login mail import page error nightly deploy meeting customer invoice budget plan
    review table column index data network Friday Monday morning we you they think said will should could check fix
"""


def _generated(source: random.Random, number: int) -> dict[str, Any]:
    words = source.choices(_WORDS.split(), k=50) + [f"item{source.randrange(20_000)}" for _ in range(10)]
    source.shuffle(words)
    rare = " zanzibar 我们明天部署服务器" if number % 997 == 0 else ""
    return {"id": f"m{number}", "role": ("user", "assistant")[number % 2], "content": " ".join(words) + rare}


async def measure_latency(sessions: int, messages: int) -> None:
    source = random.Random(5)
    async with SessionManager("memory://") as manager:
        for number in range(sessions):
            batch = [_generated(source, number * messages + index) for index in range(messages)]
            await manager.session(f"s{number}").append_all(batch)
        print(f"Scan of {sessions} sessions with {messages} messages of 60 words each (memory://), milliseconds")
        for kind, query in _KINDS.items():
            one = await _milliseconds(partial(manager.session("s0").search, query))
            everything = await _milliseconds(partial(manager.search, query))
            per = everything * 1000 / (sessions * messages)
            print(f"  {kind:12} one session {one:8.1f}   everything {everything:8.1f}   {per:5.1f} µs a message")


async def _milliseconds(search: Callable[[], Awaitable[SearchResults]], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        await search()
        times.append((time.perf_counter() - start) * 1000)
    return median(times)


async def _run(arguments: argparse.Namespace) -> None:
    if arguments.locomo.exists():
        await measure_recall(arguments.locomo, 4 if arguments.quick else 1)
    else:
        print(f"no {arguments.locomo}: recall is not measured")
    await measure_latency(10, 100 if arguments.quick else 1000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the questions and a small corpus")
    parser.add_argument("--locomo", type=Path, default=_LOCOMO, help="a LoCoMo file (default: %(default)s)")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
