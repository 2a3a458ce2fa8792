"""`python -m bench.compaction`: what each strategy of compaction keeps, what it costs, and that nothing is lost by it.

Conversations grow message by message, and wherever an automatic compaction would start it is awaited instead, so that
figures other than times are the same on every machine. A whole run leaves compaction.json beside this file, a short one
in build/bench.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import random
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.conversations import Conversation, generated, locomo
from frontdesk import Message, Session, SessionManager, models
from frontdesk.tools import Tool

_HERE = Path(__file__).parent
_BUILD = _HERE.parent / "build" / "bench"
_LOCOMO = _HERE.parent.parent / "shared" / "data" / "locomo_dev.json"
_STRATEGIES = ("summarize", "truncate", "hybrid", "none")
_FAILURES = 0.2
_MORE = re.compile(r"\(there is more: call again with skip=(\d+)\)$")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one strategy made of one conversation. Shares are of facts or questions, each a (number, of how many)."""

    strategy: str
    conversation: str
    messages: int
    budget: int
    max_tokens: int
    mean_tokens: float
    final_tokens: int
    survived: dict[str, tuple[int, int]]
    """by kind of fact: in the view at the end, summaries included"""
    survived_summary: tuple[int, int]
    """of those whose message is not in the view any more"""
    by_visible_id: tuple[int, int]
    """of those: found by paging through the summaries that the view shows"""
    by_any_id: tuple[int, int]
    """of those: found by paging through every compaction that the session lists"""
    by_question: tuple[float, int]
    """of questions about messages out of view: share of these messages in the tool's first answer"""
    question_ms: float
    model_calls: int
    compactions: int
    failures: int
    seconds: float


class _Summariser:
    """The extractive one, counted; every fifth call or so fails if `failures` says so."""

    def __init__(self, failures: float) -> None:
        self._model = models.extractive()
        self._failures = failures
        self._chance = random.Random(20)
        self.calls = 0

    async def __call__(self, prompt: str) -> str:
        self.calls += 1
        if self._chance.random() < self._failures:
            raise ConnectionError("the model is down")
        return self._model(prompt)


@dataclass
class _Drive:
    """A conversation under way: what its view held after each message, and what compacting took."""

    session: Session
    budget: int
    compacts: bool
    sizes: list[int] = field(default_factory=list)
    compactions: int = 0
    failures: int = 0

    async def run(self, messages: Iterable[dict[str, Any]]) -> None:
        for message in messages:
            await self.session.append(message)
            if self.compacts:
                self.sizes.append((await self.session.context_usage()).used)
                await self._compact()
            elif len(self.sizes) % 50 == 0 or message is messages:
                self.sizes.append(sum(shown.tokens for shown in await self.view()))

    async def _compact(self) -> None:
        if await self.session.needs_compaction():
            try:
                self.compactions += await self.session.compact() is not None
            except ConnectionError:
                self.failures += 1

    async def view(self) -> list[Message]:
        shown: list[Message] = await self.session.history(max_tokens=None if self.compacts else self.budget)
        return shown


async def measure(strategy: str, conversation: Conversation, questions: int) -> Figures:
    """Lead the conversation under this strategy, then ask for its facts; at most so many questions, evenly chosen."""
    summariser = _Summariser(_FAILURES if strategy == "hybrid" else 0.0)
    async with SessionManager("memory://") as manager:
        if strategy != "none":
            manager.with_compaction(
                None if strategy == "truncate" else summariser,
                max_tokens=conversation.budget,
                strategy=strategy,  # type: ignore[arg-type]
                auto=False,
            )
        drive = _Drive(await manager.create(), conversation.budget, strategy != "none")
        start = time.perf_counter()
        await drive.run(conversation.messages)
        seconds = time.perf_counter() - start
        view = await drive.view()
        return Figures(
            strategy=strategy,
            conversation=conversation.name,
            messages=len(conversation.messages),
            budget=conversation.budget,
            max_tokens=max(drive.sizes),
            mean_tokens=sum(drive.sizes) / len(drive.sizes),
            final_tokens=sum(shown.tokens for shown in view),
            **_surviving(conversation, view),
            **await _recalled(conversation, drive.session, view, questions),
            model_calls=summariser.calls,
            compactions=drive.compactions,
            failures=drive.failures,
            seconds=seconds,
        )
