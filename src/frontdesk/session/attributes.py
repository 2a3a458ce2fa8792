"""The attributes of a session other than its messages: name, tags, metadata, summary and life-cycle thresholds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from frontdesk.checks import check_json, check_text
from frontdesk.config.settings import threshold
from frontdesk.lifecycle.transitions import ManagerDefault
from frontdesk.messages.ids import check_id
from frontdesk.session.handle import Handle
from frontdesk.store import SessionRow, metadata_of, tags_of


class Attributes:
    """Sets columns of the session's row; the session is made if there is none."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def rename(self, name: str) -> None:
        check_text(name, "name")
        await self._handle.set(lambda row: {"name": name})

    async def add_tags(self, *tags: str) -> tuple[str, ...]:
        wanted = [check_id(tag, "tag") for tag in tags]
        return await self._set_tags(lambda present: list(dict.fromkeys([*present, *wanted])))

    async def remove_tags(self, *tags: str) -> tuple[str, ...]:
        return await self._set_tags(lambda present: [tag for tag in present if tag not in tags])

    async def _set_tags(self, change: Callable[[list[str]], list[str]]) -> tuple[str, ...]:
        def changed(row: SessionRow) -> dict[str, Any]:
            return {"tags": msgspec.json.encode(change(tags_of(row))).decode()}

        return tuple(tags_of(await self._handle.set(changed)))

    async def set_metadata(self, values: dict[str, Any]) -> dict[str, Any]:
        check_json(values, "metadata")

        def merged(row: SessionRow) -> dict[str, Any]:
            kept = {**metadata_of(row), **values}
            kept = {name: value for name, value in kept.items() if value is not None}
            return {"metadata": msgspec.json.encode(kept).decode()}

        return metadata_of(await self._handle.set(merged))

    async def set_summary(self, text: str | None) -> None:
        if text is not None:
            check_text(text, "summary")
        await self._handle.set(lambda row: {"summary": text})

    async def set_lifecycle(self, times: dict[str, timedelta | ManagerDefault | None]) -> None:
        values = {
            name: None if isinstance(value, ManagerDefault) else threshold(value, name) for name, value in times.items()
        }
        await self._handle.set(lambda row: values)
