"""`python -m bench.compaction`: what each compaction strategy keeps, and what it costs.

Conversations grow message by message. Where an automatic compaction would start, it is awaited instead, so that all
figures except the times are the same on every machine. A full run writes compaction.json next to this file, a quick run
writes it to build/bench.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.conversations import Conversation, generated, locomo
from bench.recall import NOTHING, Recall, Share, ask
from frontdesk import CompactionError, Message, Session, SessionManager, models
from frontdesk.config.settings import Strategy

_HERE = Path(__file__).parent
_BUILD = _HERE.parent / "build" / "bench"
_LOCOMO = _HERE.parent.parent / "shared" / "data" / "locomo_dev.json"
_STRATEGIES: tuple[Strategy | None, ...] = ("summarize", "truncate", "hybrid", None)
_NAMES = {"summarize": "summarize", "truncate": "truncate", "hybrid": "hybrid, 20 % fail", None: "no compaction"}
_FAILING = 0.2
_LOOK_EVERY = 50


class _Summariser:
    """The extractive summariser with a count of its calls; `failing` is the share of calls that raise."""

    def __init__(self, failing: float) -> None:
        self._model = models.extractive()
        self._failing = failing
        self._chance = random.Random(20)
        self.calls = 0

    async def __call__(self, prompt: str) -> str:
        self.calls += 1
        if self._chance.random() < self._failing:
            raise ConnectionError("the model is down")
        return self._model(prompt)


@dataclass
class _Conversation:
    """A conversation in progress: the size of its view after each message, the `peak` size before a compaction, and
    the number of compactions."""

    session: Session
    strategy: Strategy | None
    budget: int
    sizes: list[int] = field(default_factory=list)
    peak: int = 0
    compactions: int = 0
    failures: int = 0

    async def append_all(self, messages: Iterable[dict[str, Any]]) -> None:
        for number, message in enumerate(messages):
            await self.session.append(message)
            if self.strategy is not None:
                self.peak = max(self.peak, (await self.session.context_usage()).used)
                await self._compact()
                self.sizes.append((await self.session.context_usage()).used)
            elif number % _LOOK_EVERY == 0:
                self.sizes.append(sum(shown.tokens for shown in await self.view()))

    async def _compact(self) -> None:
        if await self.session.needs_compaction():
            try:
                self.compactions += await self.session.compact() is not None
            except (CompactionError, ConnectionError):
                self.failures += 1  # the next message will try again

    async def view(self) -> list[Message]:
        shown: list[Message] = await self.session.history(max_tokens=self.budget if self.strategy is None else None)
        return shown


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of one strategy for one conversation. View tokens are counted after each message and its compaction;
    the peak is counted before the compaction."""

    strategy: str
    conversation: str
    messages: int
    budget: int
    peak_tokens: int
    max_tokens: int
    mean_tokens: float
    final_tokens: int
    model_calls: int
    compactions: int
    failures: int
    seconds: float
    recall: Recall


async def measure(strategy: Strategy | None, conversation: Conversation, questions: int) -> Figures:
    """Append the conversation under a strategy (None: the view is only cut to fit), then look for its facts."""
    summariser = _Summariser(_FAILING if strategy == "hybrid" else 0.0)
    manager = SessionManager("memory://")
    if strategy is not None:
        manager.with_compaction(
            None if strategy == "truncate" else summariser,
            max_tokens=conversation.budget,
            strategy=strategy,
            auto=False,
        )
    async with manager:
        running = _Conversation(await manager.create(), strategy, conversation.budget)
        start = time.perf_counter()
        await running.append_all(conversation.messages)
        seconds = time.perf_counter() - start
        view = await running.view()
        return Figures(
            strategy=_NAMES[strategy],
            conversation=conversation.name,
            messages=len(conversation.messages),
            budget=conversation.budget,
            peak_tokens=max(running.peak, *running.sizes),
            max_tokens=max(running.sizes),
            mean_tokens=sum(running.sizes) / len(running.sizes),
            final_tokens=sum(message.tokens for message in view),
            model_calls=summariser.calls,
            compactions=running.compactions,
            failures=running.failures,
            seconds=seconds,
            recall=await ask(running.session, conversation, view, questions),
        )


# output

_HEADINGS = (
    "", "peak", "view max", "mean", "final", "facts in view", "(in summary)", "by shown id", "by any id", "by question",
    "calls", "compactions", "seconds", "ms/question",
)  # fmt: skip


def _print(title: str, rows: Sequence[Sequence[Figures]]) -> None:
    """Print a table with one line per strategy, over all conversations of one kind."""
    lines = [_HEADINGS, *(_line(figures) for figures in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for line in lines:
        cells = [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells))
    for kind in rows[0][0].recall.survived:
        shares = (
            f"{figures[0].strategy} {_sum(each.recall.survived.get(kind, NOTHING) for each in figures)}"
            for figures in rows
        )
        print(f"  {kind} in view: {', '.join(shares)}")
    print("  view as a share of the budget; calls, compactions and seconds per 1,000 messages", flush=True)


def _line(figures: Sequence[Figures]) -> tuple[str, ...]:
    thousands = sum(each.messages for each in figures) / 1000
    asked = _sum(each.recall.by_question for each in figures)
    recalls = [each.recall for each in figures]
    return (
        figures[0].strategy,
        f"{max(each.peak_tokens / each.budget for each in figures):.2f}",
        f"{max(each.max_tokens / each.budget for each in figures):.2f}",
        f"{sum(each.mean_tokens / each.budget for each in figures) / len(figures):.2f}",
        f"{sum(each.final_tokens / each.budget for each in figures) / len(figures):.2f}",
        str(_sum(recall.survived_in_all for recall in recalls)),
        str(_sum(recall.in_summaries for recall in recalls)),
        str(_sum(recall.by_shown_id for recall in recalls)),
        str(_sum(recall.by_any_id for recall in recalls)),
        str(asked),
        f"{sum(each.model_calls for each in figures) / thousands:.1f}",
        f"{sum(each.compactions for each in figures) / thousands:.1f}",
        f"{sum(each.seconds for each in figures) / thousands:.2f}",
        f"{1000 * sum(recall.asking_seconds for recall in recalls) / max(1, asked.of):.0f}",
    )


def _sum(shares: Iterable[Share]) -> Share:
    return sum(shares, NOTHING)


def _environment() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": str(os.cpu_count()),
        "load at the start": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "store": "memory",
        "summariser": "frontdesk.models.extractive()",
    }


def _conversations(quick: bool) -> dict[str, list[Conversation]]:
    """The conversations by kind. Real ones are included only if the LoCoMo file exists."""
    made = [generated(1, 1_000, 8_000)] if quick else [generated(seed, 4_000, 16_000) for seed in (1, 2)]
    kinds = {f"generated: {len(made)} of {len(made[0].messages):,} messages, window {made[0].budget:,} tokens": made}
    if _LOCOMO.exists():
        real = list(locomo(_LOCOMO, 4_000))[: 2 if quick else None]
        mean = sum(len(each.messages) for each in real) // len(real)
        kinds[f"LoCoMo: {len(real)} of about {mean} messages, window {real[0].budget:,} tokens"] = real
    return kinds


async def _run(quick: bool) -> list[Figures]:
    questions = 20 if quick else 100
    found: list[Figures] = []
    for title, conversations in _conversations(quick).items():
        rows = [[await measure(name, each, questions) for each in conversations] for name in _STRATEGIES]
        _print(title, rows)
        found += [figures for row in rows for figures in row]
    return found


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter conversations, fewer questions")
    quick = parser.parse_args(given).quick
    logging.getLogger("frontdesk.compaction").setLevel(logging.ERROR)  # failures here are intended, and counted
    environment = _environment()
    for what, value in environment.items():
        print(f"{what}: {value}")
    start = time.perf_counter()
    found = asyncio.run(_run(quick))
    seconds = time.perf_counter() - start
    path = (_BUILD if quick else _HERE) / "compaction.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = {"environment": environment, "seconds": round(seconds), "figures": [asdict(each) for each in found]}
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{seconds:.0f} s; all figures in {path.relative_to(_HERE.parent)}")


if __name__ == "__main__":
    main(sys.argv[1:])
