"""`Stage` and `Scene`: write the conversations of the demo, message by message, with the times and the usage that a
real agent would leave."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from frontdesk.demo.clock import DemoClock
from frontdesk.demo.dictation import dictate
from frontdesk.keys import SessionKey
from frontdesk.manager import SessionManager
from frontdesk.session import Session

_MILLION = Decimal(1_000_000)
_TYPING = 9.0
"""characters that a guest writes in a second"""
_STREAMING = 240.0
"""characters that a model writes in a second"""
_TOOLS = 350
"""tokens of the definitions of tools, which every call sends"""


class Price(NamedTuple):
    """Dollars per million tokens: read, read from the provider's cache, written. Examples, not a price list."""

    input: Decimal
    cached: Decimal
    output: Decimal


PRICES = {
    "claude-sonnet-5": Price(Decimal(3), Decimal("0.3"), Decimal(15)),
    "claude-haiku-5": Price(Decimal(1), Decimal("0.1"), Decimal(5)),
    "gpt-5-mini": Price(Decimal("0.25"), Decimal("0.025"), Decimal(2)),
    "gpt-5.4": Price(Decimal("2.5"), Decimal("0.25"), Decimal(15)),
}


class Stage:
    """What all scenes share: the manager, its clock, and one source of random numbers, so that every demo is the
    same."""

    def __init__(self, manager: SessionManager, clock: DemoClock, now: datetime) -> None:
        self.manager = manager
        self.clock = clock
        self.now = now
        self.random = random.Random(1729)

    def go_back(self, *, days: float = 0, hours: float = 0, minutes: float = 0) -> None:
        """Set the clock to a time before now."""
        self.clock.set(self.now - timedelta(days=days, hours=hours, minutes=minutes))

    async def open(
        self, name: str, id: str, key: SessionKey | None = None, *, model: str = "claude-sonnet-5", **values: Any
    ) -> Scene:
        """Create a session, and a scene that writes to it."""
        return Scene(self, await self.manager.create(name, id=id, key=key, model=model, **values), model)


class Scene:
    """One conversation. Every answer adds an entry to the usage ledger: the first call reads everything, and the later
    ones read what was sent before from the cache."""

    def __init__(self, stage: Stage, session: Session, model: str) -> None:
        self.stage = stage
        self.session = session
        self.model = model
        self._cached = 0

    async def system(self, text: str) -> str:
        return await self._append({"role": "system", "content": text}, 1.0)

    async def user(self, text: str, *, author: str | None = None, **place: Any) -> str:
        message = {"role": "user", "content": text} if author is None else _said_by(author, text)
        pause = len(text) / _TYPING + self.stage.random.uniform(4, 60)
        return await self._append(message, pause, **place)

    async def answer(self, text: str, *, reasoning: int = 0, **place: Any) -> str:
        """An answer of the model, with its usage."""
        said = await self._append({"role": "assistant", "content": text}, 1.5 + len(text) / _STREAMING, **place)
        await self._record(len(text) // 4 + reasoning, reasoning)
        return said

    async def tool(self, name: str, result: Any, /, **arguments: Any) -> str:
        """A call of a tool and its result. Returns the id of the result."""
        call_id = f"call_{self.stage.random.getrandbits(48):012x}"
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        call = {"id": call_id, "type": "function", "function": function}
        await self._append({"role": "assistant", "content": None, "tool_calls": [call]}, 2.0)
        await self._record(40 + len(function["arguments"]) // 4, 0)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        return await self._append({"role": "tool", "tool_call_id": call_id, "content": text}, 1.2)

    async def compact(self, summary: str) -> None:
        """Compact everything in view except the last messages. The next request freezes the prompt again."""
        await self.session.compact(instructions=dictate(summary))
        await self.session.freeze_system_prompt()
        self._cached = 0  # the start of the request changed, so the provider's cache is of no use

    async def _append(self, message: dict[str, Any], pause: float, **place: Any) -> str:
        self.stage.clock.advance(pause)
        return (await self.session.append(message, **place)).message.id

    async def _record(self, written: int, reasoning: int) -> None:
        read = _TOOLS + (await self.session.context_usage()).used
        price = PRICES[self.model]
        cached = min(self._cached, read)
        cost = ((read - cached) * price.input + cached * price.cached + written * price.output) / _MILLION
        await self.stage.manager.add_usage(
            self.session.id,
            input_tokens=read,
            output_tokens=written,
            cache_read_tokens=cached,
            cache_write_tokens=read - cached if self.model.startswith("claude") else 0,
            reasoning_tokens=reasoning,
            cost=cost.quantize(Decimal("0.000001")),
            model=self.model,
        )
        self._cached = read + written


def _said_by(author: str, text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "author": author}
