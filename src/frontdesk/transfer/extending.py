"""Copies what was appended to sessions since they were copied, and nothing else: in a busy conversation, a round of a
copy costs what is new in it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import SessionNotFoundError
from frontdesk.store import (
    LoggedChange,
    NewChange,
    Place,
    PlacedMessage,
    Restore,
    RestoredSession,
    SegmentRow,
    SessionRow,
    UsageRow,
)
from frontdesk.transfer.exporting import family_lines, file_numbers
from frontdesk.transfer.families import (
    BATCH,
    Family,
    Renumbering,
    is_unchanged,
    ordinals,
    renumbered,
    transfer_store,
)


def canonical(family: Family) -> bytes:
    """A family without the numbers that its store has given to it, and without what reading changes."""
    numbers = file_numbers(family, family.number)
    order = {number: at for at, number in enumerate(_session_numbers(family), 1)}
    plain = renumbered(family, numbers._replace(session=order.__getitem__), "")
    return b"\n".join(map(msgspec.json.encode, family_lines(plain)))


def is_extended(copied: Family, family: Family) -> bool:
    """Whether nothing but appends to the heads, and usage, distinguishes a family from its copy."""
    return canonical(_without_growth(copied)) == canonical(_without_growth(family)) and all(
        old.next <= new.next for old, new in zip(copied.segments, family.segments, strict=True)
    )


async def extend(source: Runtime, target: Runtime, family: Family, copied: Family, *, usage: bool) -> bool:
    """Add to a copy what the family has more: usage entries if `usage` is true or the totals differ. False if the
    family was changed meanwhile: then it has to be copied as a whole."""
    numbers = _numbers(family, copied)
    log: list[LoggedChange] = []
    for old, new in zip(copied.segments, family.segments, strict=True):
        await _copy_messages(source, target, copied.number, old, new)
        if new.last > old.last:
            change = NewChange(kind="message.appended", segment=old.number, first=old.last + 1, last=new.last)
            log.append(LoggedChange(_owner(copied, old), target.now(), change))
    if usage or _totals(family) != _totals(copied):
        await copy_usage(source, target, family, copied)
    if not await is_unchanged(source, family):
        return False
    rows = renumbered(family, numbers, target.namespace)
    await transfer_store(target).restore(
        Restore(
            namespace=target.namespace,
            family=rows.number,
            segments=rows.segments,
            sessions=tuple(RestoredSession(row, rows.views.get(row.number)) for row in rows.sessions),
            log=tuple(log),
        )
    )
    return True


def _without_growth(family: Family) -> Family:
    """A family without what an append to a head, and a usage entry, change."""
    sessions = [
        replace(
            row,
            updated_at=0,
            last_active_at=0,
            head=None,
            message_count=0,
            view_tokens=0,
            view_messages=0,
            input_tokens=0,
            output_tokens=0,
            cost="0",
        )
        for row in family.sessions
    ]
    segments = [replace(row, last=0, next=0, tokens=0) for row in family.segments]
    return replace(family, sessions=tuple(sessions), segments=tuple(segments))


def _numbers(family: Family, copied: Family) -> Renumbering:
    """The numbers that the copy has for those of the family."""
    sessions = dict(zip(_session_numbers(family), _session_numbers(copied), strict=True))
    segments, overlays, edits = (
        ordinals([row.number for row in rows], [row.number for row in copies])
        for rows, copies in (
            (family.segments, copied.segments),
            (family.overlays, copied.overlays),
            (family.edits, copied.edits),
        )
    )
    return Renumbering(sessions.__getitem__, segments, overlays, edits)


async def _copy_messages(source: Runtime, target: Runtime, family: int, old: SegmentRow, new: SegmentRow) -> None:
    """Nobody sees these messages before the segment says so."""
    first = old.next
    while first < new.next:
        batch = await transfer_store(source).placed_messages(source.namespace, new.number, first, BATCH)
        placed = [
            PlacedMessage(Place(old.number, place.position), running, message)
            for place, running, message in batch
            if place.position < new.next
        ]
        await transfer_store(target).restore(Restore(namespace=target.namespace, family=family, messages=tuple(placed)))
        first = batch[-1].place.position + 1 if batch else new.next


async def copy_usage(source: Runtime, target: Runtime, family: Family, copied: Family) -> bool:
    """Add the usage entries that a copy does not have. Returns whether there were any. The totals of a session do
    not show that: an entry may add nothing to them."""
    added = [await _copy_entries(source, target, *rows) for rows in zip(family.sessions, copied.sessions, strict=True)]
    return any(added)


async def _copy_entries(source: Runtime, target: Runtime, new: SessionRow, old: SessionRow) -> bool:
    is_added, after = False, ""
    while batch := await _entries(source, new, after):
        present = set(await _entries(target, old, after))  # all that the copy has of the batch, and maybe more
        missing = tuple((old.number, entry) for entry in batch if entry not in present)
        if missing:
            is_added = True
            await transfer_store(target).restore(Restore(namespace=target.namespace, usage=missing))
        after = batch[-1].id
    return is_added


async def _entries(runtime: Runtime, session: SessionRow, after: str) -> list[UsageRow]:
    """The next usage entries of a session; none if it was deleted meanwhile."""
    try:
        return await transfer_store(runtime).usage_entries(runtime.namespace, session.id, after, BATCH)
    except SessionNotFoundError:
        return []


def _totals(family: Family) -> list[tuple[int, int, str]]:
    return [(row.input_tokens, row.output_tokens, row.cost) for row in family.sessions]


def _owner(family: Family, segment: SegmentRow) -> int:
    """The number of the session whose messages are in a segment, or of the first one that sees them."""
    return next((row.number for row in family.sessions if row.tree == segment.tree), family.sessions[0].number)


def _session_numbers(family: Family) -> list[int]:
    """The numbers of sessions, trees and families in it, in order."""
    return sorted(
        {
            family.number,
            *(number for row in family.sessions for number in (row.number, row.tree, row.family)),
            *(row.tree for row in family.segments),
            *(row.tree for row in family.overlays),
            *(row.tree for row in family.edits),
            *(number for row in family.lineage for number in (row.tree, row.ancestor)),
        }
    )
