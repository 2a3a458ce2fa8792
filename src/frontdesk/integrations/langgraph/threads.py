"""The threads of a saver, each on a shelf of its own: reads and changes their records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from langgraph.checkpoint.base import writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from frontdesk.errors import DamagedRecordError, InvalidKeyError
from frontdesk.integrations.langgraph import lists, records
from frontdesk.integrations.langgraph.drafting import Drafting, NewCheckpoint
from frontdesk.integrations.langgraph.lists import KnownList
from frontdesk.integrations.langgraph.recent import Known, Recent
from frontdesk.integrations.langgraph.records import CheckpointRecord, Elements, Inline, Run, Stored, WriteRecord
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.states.shelves import Blob, BlobRange, ShelfVersion, one

_NAME = "langgraph"
_PAGE = 20
_MOST_REPLACED = 16

Owner = Callable[[str], SessionKey | None]


class Loaded(NamedTuple):
    """A checkpoint with its values, and the writes of its next step in their order."""

    record: CheckpointRecord
    values: dict[str, Any]
    writes: list[WriteRecord]


class Threads:
    """All threads. A write happens whole or not at all, and never relies on what another process has deleted."""

    def __init__(self, manager: SessionManager, owner: Owner | None) -> None:
        self._shelves = manager.shelves(_NAME)
        self._owner = owner or key_in
        self._recent = Recent()

    # writing

    async def put(self, thread: str, new: NewCheckpoint, serde: SerializerProtocol) -> None:
        where, touched, known = (thread, new.ns), [], None
        if new.parent is not None:
            touched = self._recent.take_touched(where, new.parent)
            known = self._recent.get(where, new.parent)
        is_recent = known is not None
        if not is_recent:
            known = await self._parent(thread, new)
        numbers: dict[str, int] = {}
        while True:
            record, draft = Drafting(serde, new, known, touched).draft(numbers)
            if is_recent and draft.replaced > _MOST_REPLACED:
                # The objects are others, but their contents may be the same: compare with what is stored.
                is_recent, known = False, await self._parent(thread, new)
                continue
            version = await self._shelves.write(
                thread,
                put=draft.blobs,
                owner=self._owner(thread),
                if_edition=None if known is None else known.edition,
                if_empty=draft.claimed,
            )
            if version is not None:
                return self._recent.put(where, Known(record, version.edition, draft.lists))
            # Something was deleted meanwhile, or another branch or process has used the numbers.
            is_recent, known = False, await self._parent(thread, new)
            numbers = await self._next_numbers(thread, new.ns, draft.lists)

    async def put_writes(self, thread: str, ns: str, id: str, writes: Sequence[WriteRecord]) -> None:
        """Store what a task has written. A write with an index below 0 replaces an earlier one."""
        blobs = [(records.write_key(ns, id, each.task_id, each.index), each) for each in writes]
        await self._shelves.write(
            thread,
            put={key: records.encode(each) for key, each in blobs if each.index < 0},
            add={key: records.encode(each) for key, each in blobs if each.index >= 0},
            owner=self._owner(thread),
        )

    def touch(self, thread: str, ns: str, id: str, values: Sequence[object]) -> None:
        """Note the objects that the step after a checkpoint has written. To be called before they are stored."""
        self._recent.touch((thread, ns), id, values)

    async def _parent(self, thread: str, new: NewCheckpoint) -> Known | None:
        """The parent of a new checkpoint as it is stored, with the elements of the lists that may have changed."""
        if new.parent is None:
            return None
        version, record = await self._record(thread, new.ns, new.parent)
        if version is None or record is None:
            return None
        wanted = {
            channel: value.runs
            for channel, value in record.values.items()
            if isinstance(value, Elements) and channel in new.new_versions
        }
        ranges = [records.elements(new.ns, channel, run) for channel, runs in wanted.items() for run in runs]
        found = iter((await self._shelves.read(thread, *ranges)).found if ranges else ())
        raws = {channel: [blob.value for _ in runs for blob in next(found)] for channel, runs in wanted.items()}
        known = {channel: KnownList(runs, raws=raws[channel]) for channel, runs in wanted.items()}
        return Known(record, version.edition, known)

    async def _next_numbers(self, thread: str, ns: str, channels: Iterable[str]) -> dict[str, int]:
        names = [*channels]
        ranges = [records.elements_from(ns, name, 0, backwards=True)._replace(limit=1) for name in names]
        found = (await self._shelves.read(thread, *ranges)).found
        return {name: records.number_of(blobs[0].key) + 1 for name, blobs in zip(names, found, strict=True) if blobs}

    # reading

    async def load(
        self, thread: str, ns: str, id: str | None, serde: SerializerProtocol, *, remember: bool
    ) -> Loaded | None:
        """A checkpoint, or (None) the latest one of a namespace. It should be remembered if a step is likely to follow
        it."""
        while True:
            version, record = await self._record(thread, ns, id)
            if version is None or record is None:
                return None
            writes, *found = (await self._shelves.read(thread, *_ranges(record))).found
            try:
                values, known = _values(record, iter(found), serde)
            except DamagedRecordError:
                now = (await self._shelves.read(thread)).version
                if now is not None and now.edition == version.edition:
                    raise
                continue  # something was deleted meanwhile: the record is gone, too
            if remember:
                self._recent.put((thread, ns), Known(record, version.edition, known))
            return Loaded(record, values, _ordered(writes))

    async def page(self, thread: str, wanted: BlobRange) -> list[CheckpointRecord]:
        """The latest checkpoints in a range, newest first within each namespace."""
        read = await self._shelves.read(thread, wanted._replace(limit=_PAGE, backwards=True))
        return [records.decode_checkpoint(blob.value) for blob in read.found[0]]

    def ids(self) -> AsyncIterator[str]:
        return self._shelves.ids()

    async def _record(
        self, thread: str, ns: str, id: str | None
    ) -> tuple[ShelfVersion | None, CheckpointRecord | None]:
        latest = records.checkpoints_of(ns)._replace(limit=1)
        read = await self._shelves.read(thread, latest if id is None else one(records.checkpoint_key(ns, id)))
        (found,) = read.found
        return read.version, records.decode_checkpoint(found[0].value) if found else None

    # deleting

    async def delete(self, thread: str) -> None:
        self._recent.forget(thread)
        await self._shelves.delete(thread)

    async def delete_run(self, thread: str, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs."""
        read = await self._shelves.read(thread, *map(records.checkpoints_by_run, run_ids))
        if any(read.found):
            gone = set(run_ids)
            await self.keep(thread, lambda found: [each for each in found if each.run_id not in gone])

    async def copy(self, source: str, target: str) -> None:
        """Replace a thread by a copy of another one."""
        version, (blobs,) = await self._shelves.read(source, records.EVERYTHING)
        if version is not None:
            self._recent.forget(target)
            copied = {blob.key: blob.value for blob in blobs}
            await self._shelves.write(target, delete=[records.EVERYTHING], put=copied, owner=self._owner(target))

    async def keep(self, thread: str, choose: Callable[[list[CheckpointRecord]], list[CheckpointRecord]]) -> None:
        """Delete all checkpoints but those that are chosen, with the values that none of these has."""
        while True:
            version, (blobs,) = await self._shelves.read(thread, records.CHECKPOINTS)
            if version is None:
                return
            found = [records.decode_checkpoint(blob.value) for blob in blobs]
            kept = choose(found)
            keys = {(each.ns, each.id) for each in kept}
            gone = [each for each in found if (each.ns, each.id) not in keys]
            if not gone:
                return
            delete = [trace for each in gone for trace in records.traces_of(each)] + _unused(gone, kept)
            self._recent.forget(thread)
            if await self._shelves.write(thread, delete=delete, if_number=version.number) is not None:
                return


def key_in(thread: str) -> SessionKey | None:
    """The key that a thread id is, if it is one."""
    with suppress(InvalidKeyError):
        return SessionKey.parse(thread)
    return None


def _ranges(record: CheckpointRecord) -> list[BlobRange]:
    """Where the writes after a checkpoint are, and those of its values that it does not hold itself."""
    ranges = [records.writes_of(record.ns, record.id)]
    for channel, value in record.values.items():
        if isinstance(value, Elements):
            ranges += [records.elements(record.ns, channel, run) for run in value.runs]
        elif isinstance(value, Stored):
            ranges.append(one(records.value_key(record.ns, channel, value.by)))
    return ranges


def _ordered(writes: Iterable[Blob]) -> list[WriteRecord]:
    return sorted(
        (records.decode_write(blob.value) for blob in writes),
        key=lambda write: writes_sort_key(write.task_path, write.task_id, write.index),
    )


def _values(
    record: CheckpointRecord, found: Any, serde: SerializerProtocol
) -> tuple[dict[str, Any], dict[str, KnownList]]:
    values: dict[str, Any] = {}
    known: dict[str, KnownList] = {}
    for channel, value in record.values.items():
        if isinstance(value, Inline):
            values[channel] = serde.loads_typed((value.encoding, value.data))
            continue
        count = sum(count for _, count in value.runs) if isinstance(value, Elements) else 1
        blobs: list[Blob] = [blob for _ in (value.runs if isinstance(value, Elements) else [0]) for blob in next(found)]
        if len(blobs) != count:
            raise DamagedRecordError("checkpoint", record.id)
        loaded = [serde.loads_typed(records.decode_typed(blob.value)) for blob in blobs]
        if isinstance(value, Elements):
            known[channel] = KnownList(value.runs, raws=[blob.value for blob in blobs])
            values[channel] = loaded
        else:
            values[channel] = loaded[0]
    return values, known


def _unused(gone: list[CheckpointRecord], kept: list[CheckpointRecord]) -> list[BlobRange]:
    """The values of checkpoints that no other one has."""
    stored, runs = _used(gone)
    still_stored, still_runs = _used(kept)
    unused = [one(key) for key in stored - still_stored]
    for channel, numbers in runs.items():
        left = lists.subtract(numbers, still_runs.get(channel, []))
        unused += [records.elements(*channel, run) for run in left]
    return unused


def _used(checkpoints: list[CheckpointRecord]) -> tuple[set[bytes], dict[tuple[str, str], list[Run]]]:
    """The keys of stored values, and by namespace and channel the numbers of elements."""
    stored: set[bytes] = set()
    runs: dict[tuple[str, str], list[Run]] = {}
    for each in checkpoints:
        for channel, value in each.values.items():
            if isinstance(value, Stored):
                stored.add(records.value_key(each.ns, channel, value.by))
            elif isinstance(value, Elements):
                runs.setdefault((each.ns, channel), []).extend(value.runs)
    return stored, runs
