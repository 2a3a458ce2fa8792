"""An import: reads the lines of an export, and writes each family when it is complete."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError, SessionExistsError
from frontdesk.records import ImportProblem, ImportReport
from frontdesk.store import (
    DocumentName,
    DocumentRow,
    EditRow,
    NumberKind,
    OverlayRow,
    Place,
    PlacedMessage,
    PromptRow,
    Restore,
    SegmentRow,
    SessionRow,
    StateKey,
    StateRow,
    StateStore,
    UnfinishedSession,
    UsageRow,
    ViewRow,
)
from frontdesk.transfer import lines
from frontdesk.transfer.families import BATCH, Family, Renumbering, current_key, ordinals, transfer_store
from frontdesk.transfer.problems import Problems
from frontdesk.transfer.restoring import SessionNumbers, family_rows
from frontdesk.transfer.shelving import ShelfImporter
from frontdesk.tree.usage import add_entry, subtract_entry

_DayKey = tuple[str, str | None, str | None, str | None]


async def import_lines(
    runtime: Runtime,
    source: AsyncIterable[bytes],
    *,
    dry_run: bool,
    on_progress: Callable[[int, int], Any] | None,
) -> ImportReport:
    """See `SessionManager.import_lines`."""
    reader = Importer(runtime, dry_run=dry_run)
    number = size = 0
    async for text in source:
        number += 1
        size += len(text)
        if text.strip():
            await reader.take(number, text)
        if on_progress is not None and number % BATCH == 0:
            on_progress(number, size)
    return await reader.finish(number)


@dataclass
class _Open:
    """A family whose lines are being read."""

    line: lines.FamilyLine
    numbers: Renumbering
    segments: list[SegmentRow] = field(default_factory=list)
    overlays: list[OverlayRow] = field(default_factory=list)
    edits: list[EditRow] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    views: dict[int, ViewRow] = field(default_factory=dict)
    prompts: dict[str, PromptRow] = field(default_factory=dict)
    documents: dict[str, list[DocumentRow]] = field(default_factory=dict)
    messages: list[PlacedMessage] = field(default_factory=list)
    usage: list[tuple[int, UsageRow]] = field(default_factory=list)
    added: dict[_DayKey, UsageRow] = field(default_factory=dict)
    """what its usage entries add to the totals"""
    message_count: int = 0
    is_noted: bool = False
    """whether a part of it was written, and the store has a note of that"""


class Importer:
    """Takes the lines of a file one by one. A line that cannot be read is reported, and the family that it is in is
    left out; the others are imported. What is there already stays as it is."""

    def __init__(self, runtime: Runtime, *, dry_run: bool) -> None:
        self._runtime = runtime
        self._store = transfer_store(runtime)
        self._dry = dry_run
        self._numbers = SessionNumbers(runtime)
        self._shelves = ShelfImporter(runtime, dry_run=dry_run)
        self._open: _Open | None = None
        self._began = self._complete = False
        self._taken = 0
        """how many lines were read"""
        self._problems: Problems[ImportProblem] = Problems()
        self._counts = dict.fromkeys(("sessions", "messages", "skipped", "documents", "states"), 0)
        self._days: dict[_DayKey, UsageRow] | None = None
        self._added: dict[_DayKey, UsageRow] = {}
        self._lost: dict[_DayKey, UsageRow] = {}
        """what the families that were left out would have added"""
        self._left_out: _Open | None = None
        """the one whose other lines are being read"""

    async def take(self, number: int, text: bytes) -> None:
        """Read a line."""
        try:
            line = lines.decode(text)
            self._check_order(number, line)
            await self._dispatch(line)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError, SessionExistsError) as error:
            self._report(number, error)
            await self._leave_out()
            await self._shelves.leave_out()
        self._taken += 1

    def _check_order(self, number: int, line: lines.AnyLine) -> None:
        """Report lines that are missing, although each of the others can be read."""
        if isinstance(line, lines.FamilyLine) and self._open is not None:
            self._report(number, "the family before this line does not end: it was left out")
        if isinstance(line, lines.LastLine) and line.lines != self._taken and not self._problems.total:
            self._report(number, f"{line.lines} lines come before it in the export, and {self._taken} in this file")

    async def finish(self, count: int) -> ImportReport:
        """The report, once all lines were read."""
        if self._shelves.is_open:
            await self._shelves.leave_out()
            self._report(count, "the file ends in the middle of a shelf: it was cut off, and the shelf was left out")
        elif self._open is not None:
            await self._leave_out()
            self._report(count, "the file ends in the middle of a family: it was cut off, and the family was left out")
        elif not self._complete:
            self._report(count, "the last line is missing: the file was cut off")
        self._counts["shelves"] = self._shelves.count
        problems = self._problems
        return ImportReport(
            dry_run=self._dry,
            lines=count,
            problems=problems.first,
            problems_total=problems.total,
            **self._counts,
        )

    def _report(self, number: int, problem: Exception | str) -> None:
        if isinstance(problem, KeyError):
            what = "it refers to a number or a session that the family does not have"
        elif isinstance(problem, SessionExistsError):
            what = f"another session is under the key of session {problem.name!r}: it was left out"
        elif isinstance(problem, str | msgspec.ValidationError | IndexError):
            what = str(problem)
        else:
            what = "the line is not JSON: it may have been cut off"
        self._problems.add(ImportProblem(number, what))

    async def _leave_out(self) -> None:
        """Leave out the open family, and remove what was written of it."""
        family, self._open = self._open, None
        if family is None:
            return
        _add_up(self._lost, family.added)
        family.added, self._left_out = self._lost, family
        if family.is_noted:
            number = family.numbers.session(family.line.number)
            await self._store.remove_unfinished(self._runtime.namespace, number)

    async def _dispatch(self, line: lines.AnyLine) -> None:
        if isinstance(line, lines.Header):
            self._begin(line)
        elif not self._began:
            raise InvalidInputError("this is not an export of Frontdesk: its first line is missing")
        elif isinstance(line, lines.FamilyLine):
            await self._begin_family(line)
        elif isinstance(line, lines.ShelfLine):
            await self._shelves.begin(line)
        elif self._shelves.is_open:
            await self._take_of_shelf(line)
        elif isinstance(line, lines.EndLine):
            await self._end_family()
        elif isinstance(line, lines.DayLine):
            await self._day(line)
        elif isinstance(line, lines.StateLine):
            await self._state(line)
        elif isinstance(line, lines.StateStoreLine):
            if not self._dry:
                await self._runtime.store.add_state_store(self._runtime.namespace, line.url)
        elif isinstance(line, lines.LastLine):
            self._complete = True
        elif isinstance(line, lines.DocumentLine) and line.owner.scope != "session":
            await self._shared_document(line)
        elif self._open is not None:
            self._add(self._open, line)
            await self._flush(self._open)
        elif isinstance(line, lines.UsageLine) and self._left_out is not None:
            self._add_usage(self._left_out, line)
            self._left_out.usage = []

    async def _take_of_shelf(self, line: lines.AnyLine) -> None:
        if isinstance(line, lines.EndLine):
            await self._shelves.end()
        elif isinstance(line, lines.BlobLine):
            await self._shelves.add(line)
        else:
            raise KeyError(line)

    def _begin(self, line: lines.Header) -> None:
        if line.version != lines.VERSION:
            raise InvalidInputError(f"the export has version {line.version}: this release reads {lines.VERSION}")
        self._began = True

    # families

    async def _begin_family(self, line: lines.FamilyLine) -> None:
        await self._leave_out()
        self._left_out = None
        known = [id for id in line.ids if await self._runtime.store.get(self._runtime.namespace, id) is not None]
        if known:
            self._counts["skipped"] += len(line.ids)
            return
        draw = self._store.draw_numbers
        namespace = self._runtime.namespace
        drawn: dict[NumberKind, dict[int, int]] = {}
        wanted: tuple[tuple[NumberKind, int], ...] = (
            ("segment", line.segments),
            ("overlay", line.overlays),
            ("edit", line.edits),
        )
        for kind, count in wanted:
            numbers = [*range(1, count + 1)]
            drawn[kind] = ordinals(numbers, numbers if self._dry or not count else await draw(namespace, kind, count))
        session = (lambda number: number) if self._dry else self._numbers.get
        highest = [line.number, *(number for row in line.lineage for number in (row.tree, row.ancestor))]
        if not self._dry:
            await self._numbers.reach(max(highest))
        self._open = _Open(line, Renumbering(session, drawn["segment"], drawn["overlay"], drawn["edit"]))

    def _add(self, family: _Open, line: lines.AnyLine) -> None:
        """Add a line to the open family, with the numbers of the file; messages and usage get their new ones."""
        if isinstance(line, lines.SegmentLine):
            family.segments.append(SegmentRow(**_without(line, parent=_place(line.parent))))
        elif isinstance(line, lines.OverlayLine):
            ends = {"start": Place(*line.start), "end": Place(*line.end)}
            family.overlays.append(OverlayRow(**_without(line, details=lines.text_of(line.details), **ends)))
        elif isinstance(line, lines.EditLine):
            message = None if line.message is None else lines.stored_message(line.message)
            family.edits.append(EditRow(**_without(line, message=message)))
        elif isinstance(line, lines.SessionLine):
            tags, metadata = lines.text_of(line.tags), lines.text_of(line.metadata)
            family.sessions.append(replace(line.row, tags=tags, metadata=metadata))
            if line.view is not None:
                family.views[line.row.number] = line.view
        elif isinstance(line, lines.PromptLine):
            family.prompts[line.session] = PromptRow(**_without(line, "session", blocks=lines.text_of(line.blocks)))
        elif isinstance(line, lines.DocumentLine):
            document = DocumentRow(**_without(line, "owner"))
            family.documents.setdefault(line.owner.session_id or "", []).append(document)
        elif isinstance(line, lines.MessageLine):
            place = Place(family.numbers.segments[line.segment], line.position)
            family.messages.append(PlacedMessage(place, line.running, lines.stored_message(line)))
            family.message_count += 1
        elif isinstance(line, lines.UsageLine):
            self._add_usage(family, line)

    def _add_usage(self, family: _Open, line: lines.UsageLine) -> None:
        session = next((row for row in family.sessions if row.id == line.session), None)
        if session is None:
            raise KeyError(line.session)
        entry = UsageRow(**_without(line, "session"))
        family.usage.append((session.number, entry))
        key = (entry.day, entry.model, session.agent, session.channel)
        _add_up(family.added, {key: entry})

    async def _flush(self, family: _Open) -> None:
        """Write messages and usage entries, as soon as there are enough of them."""
        if self._dry:
            family.messages, family.usage = [], []
        if len(family.messages) + len(family.usage) < BATCH:
            return
        await self._reach(family)
        number, namespace = family.numbers.session, self._runtime.namespace
        of = number(family.line.number)
        if not family.is_noted:
            sessions = [UnfinishedSession(row.id, number(row.number)) for row in family.sessions]
            await self._store.begin_family(namespace, of, sessions)
            family.is_noted = True
        await self._store.restore(Restore(namespace=namespace, family=of, is_noted=True, **self._unwritten(family)))

    def _unwritten(self, family: _Open) -> dict[str, Any]:
        """The messages and usage entries that are to be written next."""
        number = family.numbers.session
        usage = tuple((number(session), entry) for session, entry in family.usage)
        messages, family.messages, family.usage = tuple(family.messages), [], []
        return {"messages": messages, "usage": usage}

    async def _reach(self, family: _Open) -> None:
        """Have numbers for all sessions and trees of a family."""
        used = [number for row in family.sessions for number in (row.number, row.tree, row.family)]
        await self._numbers.reach(max([*used, *(row.tree for row in family.segments)], default=0))

    async def _end_family(self) -> None:
        family = self._open
        if family is None:
            return
        rows = await self._rows(family)
        if not self._dry:
            await self._store.restore(replace(rows, is_noted=family.is_noted, **self._unwritten(family)))
        self._open = None
        _add_up(self._added, family.added)
        self._counts["sessions"] += len(family.sessions)
        self._counts["messages"] += family.message_count

    async def _rows(self, family: _Open) -> Restore:
        """What makes a family visible. Raises `KeyError`, `IndexError` or `ValidationError` if its lines contradict
        each other, and `SessionExistsError` if another session is current under one of its keys."""
        if sorted(row.id for row in family.sessions) != sorted(family.line.ids):
            raise KeyError(*family.line.ids)
        for row in family.sessions:
            key = current_key(row)
            if key is not None and await self._runtime.store.get_current(self._runtime.namespace, key) is not None:
                raise SessionExistsError(row.id, self._runtime.namespace)
        _check_changes(family, "overlay", family.overlays)
        _check_changes(family, "edit", family.edits)
        if not self._dry:
            await self._reach(family)
        whole = Family(
            number=family.line.number,
            sessions=tuple(family.sessions),
            views=family.views,
            segments=tuple(family.segments),
            overlays=tuple(family.overlays),
            edits=tuple(family.edits),
            lineage=family.line.lineage,
            prompts=family.prompts,
            documents={row.id: tuple(family.documents.get(row.id, ())) for row in family.sessions},
        )
        return family_rows(whole, family.numbers, self._runtime.namespace, self._runtime.now())

    # what belongs to no session

    async def _shared_document(self, line: lines.DocumentLine) -> None:
        owner, document = line.owner, DocumentRow(**_without(line, "owner"))
        name = DocumentName(owner, document.label, document.key)
        versions = await self._runtime.store.document_versions(self._runtime.namespace, name)
        if any(known.version >= document.version for known in versions):
            return
        self._counts["documents"] += 1
        if not self._dry:
            await self._store.restore(Restore(namespace=self._runtime.namespace, documents=((owner, document),)))

    async def _day(self, line: lines.DayLine) -> None:
        """A total that is there already grows by the usage of the sessions that were imported. A new one has no usage
        of those that were left out: it comes with them."""
        if self._dry:
            return
        if self._days is None:
            rows = await self._store.usage_days(self._runtime.namespace)
            self._days = {(row.day, row.model, row.agent, row.channel): row for row in rows}
        key = (line.day, line.model, line.agent, line.channel)
        known, added = self._days.get(key), self._added.get(key)
        if known is not None and added is None:
            return
        if known is not None and added is not None:
            total = add_entry(known, added)
        else:
            total = UsageRow(**asdict(line))
            total = subtract_entry(total, self._lost[key]) if key in self._lost else total
        await self._store.restore(Restore(namespace=self._runtime.namespace, days=(total,)))

    async def _state(self, line: lines.StateLine) -> None:
        key = StateKey(self._runtime.namespace, line.id, line.name)
        store = self._runtime.store
        if not isinstance(store, StateStore) or await store.peek_state(key) is not None:
            return
        self._counts["states"] += 1
        if not self._dry:
            state = StateRow(**_without(line, "id", "name", value=lines.text_of(line.value)))
            await self._store.restore(Restore(namespace=key.namespace, states=((key, state),)))


def _check_changes(family: _Open, kind: str, rows: Sequence[OverlayRow | EditRow]) -> None:
    """Raises `ValidationError` for two of the same number, and for one of a tree that is neither that of a session nor
    on the way up from it: no session would ever see it."""
    trees = {row.tree for row in family.sessions}
    trees.update(tree for link in family.line.lineage for tree in (link.tree, link.ancestor))
    numbers = set()
    for row in rows:
        if row.tree not in trees:
            raise msgspec.ValidationError(f"{kind} {row.number} belongs to a tree that the family does not have")
        if row.number in numbers:
            raise msgspec.ValidationError(f"the family has {kind} {row.number} twice")
        numbers.add(row.number)


def _without(line: lines.Line, *left_out: str, **changed: Any) -> dict[str, Any]:
    """The fields of a line, some of them left out or changed."""
    return {name: value for name, value in asdict(line).items() if name not in left_out} | changed


async def as_stream(source: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    """The lines of any source, one after the other."""
    if isinstance(source, AsyncIterable):
        async for line in source:
            yield line
    else:
        for line in source:
            yield line


def _add_up(totals: dict[_DayKey, UsageRow], entries: Mapping[_DayKey, UsageRow]) -> None:
    for key, entry in entries.items():
        day, model, agent, channel = key
        total = totals.get(key) or UsageRow(day=day, model=model, agent=agent, channel=channel)
        totals[key] = add_entry(total, entry)


def _place(pair: tuple[int, int] | None) -> Place | None:
    return None if pair is None else Place(*pair)
