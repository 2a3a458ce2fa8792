"""Pure: the notes about extracted facts. They say which messages a fact came from, so that it can be removed with them.

A session has a note on how far extraction has come, and one for each extraction that found something. The owner of the
block that the facts go to has a note with all facts of the block. Notes are documents under reserved labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from frontdesk.compaction.memory import memory_fingerprint
from frontdesk.store import DocumentRow, EditItem, Item, Place, Scope, Span
from frontdesk.store.changes import RESERVED_PREFIX
from frontdesk.store.damage import parse_stored

PROGRESS = RESERVED_PREFIX + "memory"
"""of a session: a `Progress`"""
EXTRACTIONS = RESERVED_PREFIX + "extractions"
"""of a session, with a key for each: an `Extraction`"""
FACTS = RESERVED_PREFIX + "facts"
"""of the owner of a block, with the label of the block as its key: its `BlockFacts`"""

_MOST_FACTS = 5_000
_MOST_SOURCES = 20
"""extractions that are remembered of one fact"""

Run = tuple[int, int, int]
"""a segment, and the first and the last of some consecutive positions in it"""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far extraction has come in a session. `recent` are ids of messages that were read: extraction continues after
    the last one that is on the path. `again` are messages to read again, because facts were removed that came from them
    together with messages that are gone. `edited` are messages whose facts are out of date, because their text was
    changed after it was read. `left_over` are extractions whose facts were not all accepted yet. `after_base`: a fork
    of another guest's session leaves out what it was forked from."""

    recent: list[str] = []
    again: list[Run] = []
    edited: list[Run] = []
    left_over: list[str] = []
    after_base: bool = False


class Extraction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found in some messages, and where it goes: a block, or (without a label) the sink. `left_over` are the
    facts that were not accepted yet. A withdrawn one is about to be removed, with its messages. A quote was written by
    the application: its lines go with the messages, too, but nothing is read again."""

    label: str
    scope: Scope
    runs: list[Run]
    facts: list[str]
    left_over: list[str] = []
    withdrawn: bool = False
    is_quote: bool = False


class BlockFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """All facts that a block was given, with the keys of their extractions. Consolidations made `lines` from the facts
    in `merged`; lines of earlier ones are still in earlier versions of the block. `pending` are facts to add when there
    is room."""

    sources: dict[str, list[str]] = {}
    merged: list[str] = []
    lines: list[str] = []
    pending: list[str] = []

    @property
    def known(self) -> set[str]:
        """The fingerprints of all facts."""
        return {memory_fingerprint(fact) for fact in self.sources}


class Withdrawal(NamedTuple):
    """What follows from the removal of extractions: the new notes, the fingerprints of the lines to remove, and the
    facts to add again, because a consolidation had merged them with removed ones."""

    notes: BlockFacts
    gone: set[str]
    restored: list[str]


_decode_progress = msgspec.json.Decoder(Progress).decode
_decode_extraction = msgspec.json.Decoder(Extraction).decode
_decode_facts = msgspec.json.Decoder(BlockFacts).decode


def decode_progress(row: DocumentRow | None, session_id: str) -> Progress:
    """Raises `DamagedRecordError`."""
    if row is None:
        return Progress()
    return parse_stored(_decode_progress, row.content, "extraction progress of session", session_id)


def decode_extraction(row: DocumentRow) -> Extraction:
    """Raises `DamagedRecordError`."""
    return parse_stored(_decode_extraction, row.content, "extraction", row.key)


def decode_facts(row: DocumentRow | None) -> BlockFacts:
    """Raises `DamagedRecordError`."""
    return BlockFacts() if row is None else parse_stored(_decode_facts, row.content, "facts of context block", row.key)


def renumber(row: DocumentRow, session_id: str, segments: Mapping[int, int]) -> DocumentRow:
    """The same note where the segments have other numbers. Runs in segments that are gone are left out. Raises
    `DamagedRecordError`."""
    if row.label == PROGRESS:
        progress = decode_progress(row, session_id)
        again, edited = (_renumbered(runs, segments) for runs in (progress.again, progress.edited))
        note: Progress | Extraction = msgspec.structs.replace(progress, again=again, edited=edited)
    elif row.label == EXTRACTIONS:
        extraction = decode_extraction(row)
        note = msgspec.structs.replace(extraction, runs=_renumbered(extraction.runs, segments))
    else:
        return row
    return msgspec.structs.replace(row, content=encode(note))


def _renumbered(runs: Iterable[Run], segments: Mapping[int, int]) -> list[Run]:
    return [(segments[segment], first, last) for segment, first, last in runs if segment in segments]


def encode(note: Progress | Extraction | BlockFacts) -> str:
    return msgspec.json.encode(note).decode()


# places


def places_of(items: Iterable[Item]) -> list[Place]:
    """The places of the messages of some items, in order."""
    places: list[Place] = []
    for item in items:
        if isinstance(item, Span):
            places += [Place(item.segment, position) for position in range(item.first, item.last + 1)]
        elif isinstance(item, EditItem):
            places.append(item.place)
    return places


def runs_of(places: Iterable[Place]) -> list[Run]:
    """Places as runs of consecutive positions."""
    runs: list[Run] = []
    for segment, position in sorted(places):
        if runs and runs[-1][0] == segment and runs[-1][2] == position - 1:
            runs[-1] = (segment, runs[-1][1], position)
        else:
            runs.append((segment, position, position))
    return runs


def joined_runs(runs: Iterable[Run]) -> list[Run]:
    """Runs in order, those that overlap or follow each other as one."""
    joined: list[Run] = []
    for segment, first, last in sorted(runs):
        if joined and joined[-1][0] == segment and first <= joined[-1][2] + 1:
            joined[-1] = (segment, joined[-1][1], max(joined[-1][2], last))
        else:
            joined.append((segment, first, last))
    return joined


def contains(runs: Sequence[Run], place: Place) -> bool:
    return any(segment == place.segment and first <= place.position <= last for segment, first, last in runs)


def overlap(runs: Sequence[Run], others: Sequence[Run]) -> bool:
    """Whether two lists of runs have a place in common."""
    return any(run[0] == other[0] and run[1] <= other[2] and other[1] <= run[2] for run in runs for other in others)


def items_within(items: Iterable[Item], runs: Sequence[Run]) -> list[Item]:
    """The messages of some items that are in some runs."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, EditItem) and contains(runs, item.place):
            found.append(item)
        elif isinstance(item, Span):
            parts = [
                (max(first, item.first), min(last, item.last))
                for segment, first, last in runs
                if segment == item.segment
            ]
            found += [
                Span(item.segment, first, last, item.before if first == item.first else Place(item.segment, first - 1))
                for first, last in sorted(parts)
                if first <= last
            ]
    return found


# facts


def add_facts(notes: BlockFacts, extractions: Mapping[str, Extraction], pending: Sequence[str]) -> BlockFacts:
    """The notes of a block that was given the facts of these extractions."""
    named = {memory_fingerprint(fact): fact for fact in notes.sources}
    sources = dict(notes.sources)
    for key, extraction in extractions.items():
        for fact in extraction.facts:
            name = named.setdefault(memory_fingerprint(fact), fact)
            sources[name] = [*(each for each in sources.get(name, []) if each != key), key][-_MOST_SOURCES:]
    kept = dict(list(sources.items())[-_MOST_FACTS:])
    return msgspec.structs.replace(notes, sources=kept, pending=list(pending))


def consolidate_facts(notes: BlockFacts, before: str, after: str) -> BlockFacts:
    """The notes of a block whose content was rewritten by a consolidation. What an earlier one wrote is traced back to
    the facts that it was made from, unless it is known as a fact itself."""
    written = {memory_fingerprint(line) for line in notes.lines} - notes.known
    given = [line for line in before.splitlines() if line.strip() and memory_fingerprint(line) not in written]
    made = [line for line in after.splitlines() if line.strip()]
    merged = list(dict.fromkeys([*notes.merged, *given]))[-_MOST_FACTS:]
    lines = list(dict.fromkeys([*notes.lines, *made]))[-_MOST_FACTS:]
    return msgspec.structs.replace(notes, merged=merged, lines=lines)


def withdraw(notes: BlockFacts, extractions: Mapping[str, Extraction]) -> Withdrawal:
    """Take extractions back. A fact that another extraction found as well stays.

    If one of the facts was merged into others by a consolidation, all lines that consolidations wrote go, except those
    that are facts which stay, and the other facts that they were made from come back."""
    gone = {memory_fingerprint(fact) for extraction in extractions.values() for fact in extraction.facts}
    sources: dict[str, list[str]] = {}
    for fact, keys in notes.sources.items():
        left = [key for key in keys if key not in extractions]
        if left:
            sources[fact] = left
            gone.discard(memory_fingerprint(fact))
    merged = {memory_fingerprint(fact): fact for fact in notes.merged}
    pending = [fact for fact in notes.pending if memory_fingerprint(fact) not in gone]
    if not gone & merged.keys():
        return Withdrawal(msgspec.structs.replace(notes, sources=sources, pending=pending), gone, [])
    restored = [fact for mark, fact in merged.items() if mark not in gone]
    stays = (merged.keys() | {memory_fingerprint(fact) for fact in sources}) - gone
    gone |= {memory_fingerprint(line) for line in notes.lines} - stays
    return Withdrawal(BlockFacts(sources=sources, pending=pending), gone, restored)


def without_lines(content: str, gone: set[str]) -> str:
    """A content without the lines that have one of these fingerprints."""
    kept = [line for line in content.splitlines(keepends=True) if memory_fingerprint(line) not in gone]
    text = "".join(kept)
    return text if len(kept) == len(content.splitlines()) else text.rstrip("\n")
