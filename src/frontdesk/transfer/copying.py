"""Copies a namespace to another store while it is in use, and follows its change log.

Nothing is remembered between two runs: what is the same on both sides is skipped. So a copy that was interrupted is
simply started again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from frontdesk.config.runtime import Runtime
from frontdesk.records import CopyReport
from frontdesk.store import ChangeRow, DocumentName, Owner, Restore, SessionQuery, ShelfStore, StateStore
from frontdesk.transfer import lines
from frontdesk.transfer.exporting import all_states, export_family
from frontdesk.transfer.extending import canonical, copy_usage, extend, is_extended
from frontdesk.transfer.families import BATCH, Family, current_key, load_documents, load_family, transfer_store
from frontdesk.transfer.importing import Importer
from frontdesk.transfer.shelving import all_shelves, export_shelf

Delete = Callable[[str], Awaitable[object]]
"""deletes a session of the target by its id"""
_WAIT = 1.0
"""seconds between two looks at the change log, if nothing announces a change"""


class Copier:
    """One copy. The target must not be in use: what is not in the source is deleted from it."""

    def __init__(
        self, source: Runtime, target: Runtime, delete: Delete, on_progress: Callable[[CopyReport], Any] | None
    ) -> None:
        self._source = source
        self._target = target
        self._delete = delete
        self._on_progress = on_progress
        self._importer = Importer(target, dry_run=False)
        self._base: int | None = None
        self._report = CopyReport()

    async def run(self, *, follow: bool) -> CopyReport:
        """Copy all that differs, and then what has changed meanwhile: until there is no more, or (`follow`) forever."""
        position = await self._source.store.last_change(self._source.namespace)
        await self._importer.take(0, lines.encode(lines.Header(version=lines.VERSION, namespace="")))
        after = 0
        while numbers := await self._source.store.families(self._source.namespace, after, BATCH):
            for number in numbers:
                await self._copy_family(number)
            after = numbers[-1]
        await self._delete_missing()
        while True:
            entries = await self._source.store.changes(self._source.namespace, position, BATCH)
            if entries:
                await self._copy_changes(entries)
                position = entries[-1].position
            elif follow:
                await self._source.store.wait_for_change(await self._copy_unlogged())
            else:
                await self._copy_shared()
                return self._report

    async def _copy_unlogged(self) -> float:
        """Copy what the change log does not announce: states and shelves. Returns how many seconds to wait before it is
        done again, so that it takes a small part of the time."""
        began = time.monotonic()
        await self._copy_shared()
        return max(_WAIT, 10 * (time.monotonic() - began))

    # families

    async def _copy_family(self, number: int, *, usage: bool = True) -> None:
        """Copy a family if it differs. Without `usage`, it is known that no usage entries were added."""
        self._base = number if self._base is None else self._base
        family = await load_family(self._source, number)
        if family is None:
            return
        copied = await self._counterpart(family)
        if copied is not None and canonical(family) == canonical(copied):
            added = usage and await copy_usage(self._source, self._target, family, copied)
            self._count(**{"sessions" if added else "unchanged": len(family.sessions)})
            return
        if (
            copied is not None
            and is_extended(copied, family)
            and await extend(self._source, self._target, family, copied, usage=usage)
        ):
            self._count(sessions=len(family.sessions))
            return
        for session_id in family.ids if copied is None else {*family.ids, *copied.ids}:
            await self._delete(session_id)
        await self._free_keys(family)
        count = 0
        async for line in export_family(self._source, number, self._base):
            await self._importer.take(count, line)
            count += 1
        self._count(sessions=len(family.sessions))

    async def _counterpart(self, family: Family) -> Family | None:
        """The family of the target that has one of the same sessions."""
        for session_id in family.ids:
            row = await self._target.store.get(self._target.namespace, session_id)
            if row is not None:
                return await load_family(self._target, row.family)
        return None

    async def _free_keys(self, family: Family) -> None:
        """Delete what the target has under the keys of a family. In the source, it is not current any more: its own
        family was changed or deleted, and is copied for that reason."""
        for row in family.sessions:
            key = current_key(row)
            held = None if key is None else await self._target.store.get_current(self._target.namespace, key)
            if held is not None:
                await self._delete(held.id)

    async def _copy_changes(self, entries: list[ChangeRow]) -> None:
        numbers = sorted({entry.session for entry in entries if entry.session})
        rows = await self._source.store.sessions(self._source.namespace, numbers)
        if any(entry.kind == "session.deleted" for entry in entries):
            await self._delete_missing()
        used = {entry.session for entry in entries if entry.kind == "usage.added"}
        families = {row.family: False for row in rows} | {row.family: True for row in rows if row.number in used}
        for family in sorted(families):
            await self._copy_family(family, usage=families[family])

    async def _delete_missing(self) -> None:
        """Delete sessions of the target that the source does not have."""
        after: tuple[int, int] | None = None
        while True:
            query = SessionQuery(namespace=self._target.namespace, limit=BATCH, order="created", after=after)
            rows = await self._target.store.page(query)
            for row in rows:
                if await self._source.store.get(self._source.namespace, row.id) is None:
                    await self._delete(row.id)
                    self._count(deleted=1)
            if len(rows) < BATCH:
                return
            after = (0, rows[-1].number)

    def _count(self, **added: int) -> None:
        values = {name: getattr(self._report, name) + count for name, count in added.items()}
        self._report = replace(self._report, **values)
        if self._on_progress is not None:
            self._on_progress(self._report)

    # what belongs to no session

    async def _copy_shared(self) -> None:
        source, target = transfer_store(self._source), transfer_store(self._target)
        namespace = self._target.namespace
        owners = {*await source.document_owners(self._source.namespace), *await target.document_owners(namespace)}
        for owner in owners:
            await self._copy_documents(owner)
        await target.restore(Restore(namespace=namespace, days=tuple(await source.usage_days(self._source.namespace))))
        await self._copy_states()
        await self._copy_shelves()
        for url in await self._source.store.state_stores(self._source.namespace):
            await self._target.store.add_state_store(namespace, url)

    async def _copy_documents(self, owner: Owner) -> None:
        wanted, present = [await load_documents(runtime, owner) for runtime in (self._source, self._target)]
        if wanted == present:
            return
        for label, key in {(row.label, row.key) for row in (*wanted, *present)}:
            new, old = ([row for row in rows if (row.label, row.key) == (label, key)] for rows in (wanted, present))
            if new != old:
                newest = old[-1].version if old else 0
                name = DocumentName(owner, label, key)
                await self._target.store.rewrite_document(self._target.namespace, name, new, newest)

    async def _copy_states(self) -> None:
        store = self._target.store
        if not isinstance(store, StateStore):
            return
        known = {(key.id, key.name): row async for key, row in all_states(self._target)}
        async for key, row in all_states(self._source):
            if known.pop((key.id, key.name), None) != row:
                here = key._replace(namespace=self._target.namespace)
                restored = Restore(namespace=self._target.namespace, states=((here, row),))
                await transfer_store(self._target).restore(restored)
        async for key, _ in all_states(self._target):
            if (key.id, key.name) in known:
                await store.delete_state(key)

    async def _copy_shelves(self) -> None:
        store = self._target.store
        if not isinstance(store, ShelfStore):
            return
        known = {row.key[1:]: row async for row in all_shelves(self._target)}
        async for row in all_shelves(self._source):
            present = known.pop(row.key[1:], None)
            if present is not None and present[1:] == row[1:]:
                continue
            if present is not None:
                await store.delete_shelf(present.key)
            async for line in export_shelf(self._source, row):
                await self._importer.take(0, line)
        for gone in known.values():
            await store.delete_shelf(gone.key)
