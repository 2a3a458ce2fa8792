"""Message history for Pydantic AI: load what the model sees, save what a run added, or do both before every model
request."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import NewMessage
from frontdesk.messages.exact_json import compact
from frontdesk.session.session import Session

_ID_PREFIX = "pydantic-ai-"


class FrontdeskHistory:
    """The history of one conversation, for `Agent.run(..., message_history=await history.load())`. Use an object for
    one run at a time.

    `session` is the Frontdesk session: use it for branches, forks, search, compaction and context blocks."""

    def __init__(self, manager: SessionManager, session_id: str | SessionKey) -> None:
        self.session: Session = manager.session(session_id)
        self._loaded: set[str] = set()

    async def load(self, *, max_tokens: int | None = None) -> list[ModelMessage]:
        """What the model sees, including messages that other frameworks wrote. Messages of Pydantic AI come back as
        they were saved."""
        raws = await self.session.history(format="pydantic-ai", max_tokens=max_tokens)
        messages = ModelMessagesTypeAdapter.validate_python(raws)
        self._loaded.update(_id_of(raw) for raw in _dump(messages))
        return messages

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Append messages, such as `result.new_messages()`: all of them, or none. Messages that were loaded or saved
        before are skipped, so that saving twice does no harm."""
        raws = [(_id_of(raw), raw) for raw in _dump(list(messages))]
        new = [NewMessage(raw, id=id) for id, raw in raws if id not in self._loaded]
        if new:
            await self.session.append_all(new)

    async def process(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """A history processor: `Agent(..., capabilities=[ProcessHistory(history.process)])`. Before every model request
        it saves what is new, and replaces the history by what the model should see. So nothing is lost if a run stops
        halfway, and a long run is compacted while it continues. Save the last answer with `save` after the run."""
        await self.save(messages)
        return await self.load()


def _dump(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    dumped: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return dumped


def _id_of(raw: dict[str, Any]) -> str:
    """An id that is the same whenever the same message is saved: every message has its time, and its run."""
    return _ID_PREFIX + hashlib.blake2b(compact(raw).encode(), digest_size=16).hexdigest()
