"""Models that return scripted answers, and can be held until the test releases them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from frontdesk import SessionManager, Store
from tests.public_api.steps import answer, user
from tests.waiting import eventually

LENGTH = 100
"""The tokens of a message that `said` returns, with one token for each character."""


class Scripted:
    """A model that returns the answers of its script (or raises them), and then short ones that count its calls."""

    def __init__(self, *script: Any, answer: str = "summary {}") -> None:
        self.script = list(script)
        self.prompts: list[str] = []
        self.answer = answer
        self.free = asyncio.Event()
        self.free.set()

    async def __call__(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        await self.free.wait()
        answer = self.script.pop(0) if self.script else self.answer.format(len(self.prompts))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def hold(self) -> None:
        self.free.clear()

    def release(self) -> None:
        self.free.set()

    async def asked(self, times: int = 1) -> None:
        """Wait until it was called this many times."""
        await eventually(lambda: len(self.prompts) >= times)

    @property
    def shown(self) -> list[list[str]]:
        """The names of the messages in each prompt, in order."""
        return [re.findall(r"\bm\d+\b", prompt.partition("<conversation>")[2]) for prompt in self.prompts]


def said(number: int) -> dict[str, Any]:
    """A message of `LENGTH` tokens that contains its own number: a request if that is even, otherwise an answer."""
    name = f"m{number}"
    return (answer if number % 2 else user)(name, f"{name} ".ljust(LENGTH - 4, "x"))


@asynccontextmanager
async def compacting(
    store: Store, namespace: str, summarize: Any = None, **options: Any
) -> AsyncIterator[SessionManager]:
    """A manager that compacts, with a window of 1,000 tokens of one character each, and a short head and tail."""
    chosen = {"max_tokens": 1000, "protect_head": 1, "tail_tokens": 200, **options}
    manager = SessionManager(store, namespace=namespace).with_token_counter(len)
    async with manager.with_compaction(summarize, **chosen):
        yield manager
