"""Turns a checkpoint into the blobs to store: all of them, or only what differs from its parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from frontdesk.integrations.langgraph import lists, records
from frontdesk.integrations.langgraph.lists import KnownList
from frontdesk.integrations.langgraph.recent import Known
from frontdesk.integrations.langgraph.records import CheckpointRecord, Elements, Inline, Stored, Value
from frontdesk.states.shelves import BlobRange

_INLINE_BYTES = 512


@dataclass(frozen=True)
class NewCheckpoint:
    """A checkpoint as LangGraph passes it."""

    ns: str
    parent: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: ChannelVersions


@dataclass
class CheckpointDraft:
    """What to store for a checkpoint. `claimed` are the ranges that must be empty: the numbers of new elements.
    `replaced` counts the elements that are in the place of others."""

    blobs: dict[bytes, bytes] = field(default_factory=dict)
    claimed: list[BlobRange] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    lists: dict[str, KnownList] = field(default_factory=dict)
    replaced: int = 0


class Drafting:
    """Makes drafts. `next_numbers` are those of the first new elements of channels, where they are known."""

    def __init__(self, serde: SerializerProtocol, new: NewCheckpoint, known: Known | None, touched: Sequence[object]):
        self._serde = serde
        self._new = new
        self._known = known
        self._touched = touched
        self._before = {} if known is None else known.record.values

    def draft(self, next_numbers: Mapping[str, int]) -> tuple[CheckpointRecord, CheckpointDraft]:
        checkpoint = self._new.checkpoint
        draft = CheckpointDraft()
        for channel, value in checkpoint["channel_values"].items():
            draft.values[channel] = self._value(draft, channel, value, next_numbers.get(channel))
        bare = {name: part for name, part in checkpoint.items() if name != "channel_values"}
        run_id = self._new.metadata.get("run_id")
        record = CheckpointRecord(
            id=checkpoint["id"],
            ns=self._new.ns,
            parent=self._new.parent,
            checkpoint=self._serde.dumps_typed(bare),
            metadata=self._serde.dumps_typed(self._new.metadata),
            versions=dict(checkpoint["channel_versions"]),
            values=draft.values,
            run_id=run_id if isinstance(run_id, str) else None,
        )
        draft.blobs[records.checkpoint_key(record.ns, record.id)] = records.encode(record)
        if record.run_id is not None:
            draft.blobs[records.run_key(record.run_id, record.ns, record.id)] = records.encode((record.ns, record.id))
        return record, draft

    def _value(self, draft: CheckpointDraft, channel: str, value: Any, first: int | None) -> Value:
        before = self._before.get(channel)
        if before is not None and not self._is_new(channel):
            if self._known is not None and channel in self._known.lists:
                draft.lists[channel] = self._known.lists[channel]
            return before
        if lists.is_incremental(value) if not isinstance(before, Elements) else type(value) is list and value:
            return self._list(draft, channel, value, before, first)
        encoding, data = self._serde.dumps_typed(value)
        if len(data) <= _INLINE_BYTES:
            return Inline(encoding, data)
        id = self._new.checkpoint["id"]
        draft.blobs[records.value_key(self._new.ns, channel, id)] = records.encode((encoding, data))
        return Stored(id)

    def _is_new(self, channel: str) -> bool:
        """Whether the channel has another value than in the parent."""
        assert self._known is not None
        version = self._new.checkpoint["channel_versions"].get(channel)
        return channel in self._new.new_versions or self._known.record.versions.get(channel) != version

    def _list(
        self, draft: CheckpointDraft, channel: str, value: list[Any], before: Value | None, first: int | None
    ) -> Elements:
        known = self._known.lists.get(channel) if self._known is not None else None
        if known is None:
            runs = before.runs if isinstance(before, Elements) else []
            known = KnownList(runs, objects=[])
        raws: dict[int, bytes] = {}
        if known.raws is None:
            kept = lists.unchanged(known, value, self._touched)
        else:
            raws = dict(enumerate(map(self._raw, value)))
            kept = lists.unchanged_raws(known, [*raws.values()])
        change = lists.draft(len(value), known.runs, kept, first)
        for number, position in enumerate(change.new, change.first):
            raw = raws[position] if raws else self._raw(value[position])
            draft.blobs[records.element_key(self._new.ns, channel, number)] = raw
        draft.replaced += sum(at < len(known.objects or ()) for at in change.new)
        if change.new:
            draft.claimed.append(records.elements_from(self._new.ns, channel, change.first))
        draft.lists[channel] = KnownList(change.runs, objects=value[:], places=_places(known, value, change))
        return Elements(change.runs)

    def _raw(self, element: Any) -> bytes:
        return records.encode(self._serde.dumps_typed(element))


def _places(known: KnownList, value: list[Any], change: lists.ListDraft) -> dict[int, int]:
    """Where each object is, by its `id`. If elements were only added at the end, the known places stay."""
    old = len(known.objects or ())
    if known.places and old == len(known.places) <= len(value) and change.new == [*range(old, len(value))]:
        known.places.update((id(value[at]), at) for at in change.new)
        return known.places
    return {id(each): at for at, each in enumerate(value)}
