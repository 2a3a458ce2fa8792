"""The part of `Session` that deals with what is known of a conversation beside its messages: name, tags, metadata,
summary, and thresholds of its life."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from frontdesk.checks import check_json, check_text
from frontdesk.config.settings import threshold
from frontdesk.lifecycle.transitions import MANAGERS_OWN, ManagersOwn
from frontdesk.messages import check_id
from frontdesk.session.compacting import CompactionCalls
from frontdesk.store import SessionRow


class AttributeCalls(CompactionCalls):
    """What can be set on a session; doing so makes it."""

    async def rename(self, name: str) -> None:
        """Give the session another name."""
        check_text(name, "name")
        await self._set(lambda row: {"name": name})

    async def add_tags(self, *tags: str) -> tuple[str, ...]:
        """Add tags; gives all that the session has then."""
        wanted = [check_id(tag, "tag") for tag in tags]
        return await self._set_tags(lambda present: list(dict.fromkeys([*present, *wanted])))

    async def remove_tags(self, *tags: str) -> tuple[str, ...]:
        """Remove tags; gives those that are left."""
        return await self._set_tags(lambda present: [tag for tag in present if tag not in tags])

    async def _set_tags(self, change: Callable[[list[str]], list[str]]) -> tuple[str, ...]:
        row = await self._set(lambda row: {"tags": msgspec.json.encode(change(msgspec.json.decode(row.tags))).decode()})
        return tuple(msgspec.json.decode(row.tags))

    async def set_metadata(self, **values: Any) -> dict[str, Any]:
        """Set values of the metadata (None removes one); gives the whole of it."""
        check_json(values, "metadata")

        def merged(row: SessionRow) -> dict[str, Any]:
            kept = {**msgspec.json.decode(row.metadata), **values}
            kept = {name: value for name, value in kept.items() if value is not None}
            return {"metadata": msgspec.json.encode(kept).decode()}

        metadata: dict[str, Any] = msgspec.json.decode((await self._set(merged)).metadata)
        return metadata

    async def set_summary(self, text: str | None) -> None:
        """Set the summary shown in lists; it has nothing to do with compactions."""
        if text is not None:
            check_text(text, "summary")
        await self._set(lambda row: {"summary": text})

    async def set_lifecycle(
        self,
        *,
        idle_after: timedelta | ManagersOwn | None = MANAGERS_OWN,
        archive_after: timedelta | ManagersOwn | None = MANAGERS_OWN,
        delete_after: timedelta | ManagersOwn | None = MANAGERS_OWN,
    ) -> None:
        """Give the session thresholds of its own in place of those of `with_lifecycle`; None is never, and what is not
        given goes by the manager's again. Raises `InvalidInputError`."""
        given = {"idle_after": idle_after, "archive_after": archive_after, "delete_after": delete_after}
        values = {
            name: None if isinstance(value, ManagersOwn) else threshold(value, name) for name, value in given.items()
        }
        await self._set(lambda row: values)
