"""Message history for Pydantic AI: load what the model sees, save what a run added, or do both before every model
request."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from frontdesk.extras import needs_extra
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import NewMessage
from frontdesk.messages.exact_json import compact
from frontdesk.session.session import Session

with needs_extra(__name__, "pydantic-ai"):
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

_ID_PREFIX = "pydantic-ai-"


class FrontdeskHistory:
    """The history of one conversation, for `Agent.run(..., message_history=await history.load())`. Use an object for
    one run at a time.

    `session` is the Frontdesk session: use it for branches, forks, search, compaction and context blocks."""

    def __init__(self, manager: SessionManager, session_id: str | SessionKey) -> None:
        self.session: Session = manager.session(session_id)
        self._known: set[str] = set()

    async def load(self, *, max_tokens: int | None = None) -> list[ModelMessage]:
        """What the model sees, including messages that other frameworks wrote. Messages of Pydantic AI come back as
        they were saved; a request next to a summary, or to what another framework wrote, also has its parts."""
        raws = await self.session.history(format="pydantic-ai", max_tokens=max_tokens)
        messages = ModelMessagesTypeAdapter.validate_python(raws)
        self._remember(_dump(messages))
        return messages

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Append messages, such as `result.new_messages()`: all of them, or none. Messages that were loaded or saved
        before are skipped, so that saving twice does no harm."""
        raws = _dump(list(messages))
        new = [rest for raw in raws if (rest := self._without_known(raw)) is not None]
        if new:
            await self.session.append_all([NewMessage(raw, id=_ID_PREFIX + _digest(raw)) for raw in new])
        self._remember(raws)

    async def process(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """A history processor: `Agent(..., capabilities=[ProcessHistory(history.process)])`. Before every model request
        it saves what is new, and replaces the history by what the model should see. So nothing is lost if a run stops
        halfway, and a long run is compacted while it continues. Save the last answer with `save` after the run."""
        await self.save(messages)
        return await self.load()

    def _remember(self, raws: list[dict[str, Any]]) -> None:
        for raw in raws:
            self._known.update(map(_digest, _units(raw)))

    def _without_known(self, raw: dict[str, Any]) -> dict[str, Any] | None:
        """What is new in a message; None if nothing is."""
        units = _units(raw)
        new = [unit for unit in units if _digest(unit) not in self._known]
        if len(new) in (0, len(units)):
            return raw if new else None
        return {**raw, "parts": new}


def _dump(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    dumped: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return dumped


def _units(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """What is saved once: the parts of a request, because Pydantic AI joins neighbouring requests and renews their
    time, but never that of a part; and a message as a whole if its parts have no time."""
    parts: list[dict[str, Any]] = raw["parts"]
    is_timed = raw["kind"] == "request" and all(part.get("timestamp") for part in parts)
    return parts if parts and is_timed else [raw]


def _digest(unit: dict[str, Any]) -> str:
    """The same for the same message or part: each has its time."""
    return hashlib.blake2b(compact(unit).encode(), digest_size=16).hexdigest()
