"""An export: the lines of a namespace, family by family, in memory that does not grow with it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO, Any

from msgspec.structs import asdict, replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConcurrentChangeError
from frontdesk.store import DocumentRow, OverlayRow, Owner, PromptRow, SessionRow, StateKey, StateRow
from frontdesk.transfer import lines
from frontdesk.transfer.families import (
    BATCH,
    Family,
    Renumbering,
    is_unchanged,
    load_documents,
    load_family,
    ordinals,
    renumbered,
    transfer_store,
)
from frontdesk.transfer.lines import Line, encode, raw
from frontdesk.transfer.shelving import export_shelves

_IN_MEMORY = 4_000_000
"""bytes of a family that are kept in memory until the whole family was read; more go to a temporary file"""
_ATTEMPTS = 20
_USAGE = (*("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost"),)


async def export_lines(runtime: Runtime, on_progress: Callable[[int, int], Any] | None) -> AsyncIterator[bytes]:
    """The lines of the namespace, each with its line break. See `SessionManager.export`."""
    count = 0
    async for line in _all_lines(runtime, on_progress):
        count += 1
        yield line + b"\n"
    yield encode(lines.LastLine(lines=count)) + b"\n"


async def _all_lines(runtime: Runtime, on_progress: Callable[[int, int], Any] | None) -> AsyncIterator[bytes]:
    yield encode(lines.Header(version=lines.VERSION, namespace=runtime.namespace))
    base: int | None = None
    after = done = 0
    while numbers := await runtime.store.families(runtime.namespace, after, BATCH):
        for number in numbers:
            base = number if base is None else base
            async for line in export_family(runtime, number, base):
                yield line
            done += 1
            if on_progress is not None:
                on_progress(done, done)
        after = numbers[-1]
    async for shared in _shared_lines(runtime):
        yield encode(shared)
    async for line in export_shelves(runtime):
        yield line


async def export_family(runtime: Runtime, number: int, base: int) -> AsyncIterator[bytes]:
    """The lines of one family as of one moment: they are kept until it is certain that nothing has changed."""
    for _ in range(_ATTEMPTS):
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
            family = await load_family(runtime, number)
            if family is None:
                return
            await _write_family(runtime, family, base, file)
            if await is_unchanged(runtime, family):
                file.seek(0)
                for line in file:
                    yield line.rstrip(b"\n")
                return
    raise ConcurrentChangeError("sessions changed every time they were read: export again when less is written")


async def _write_family(runtime: Runtime, family: Family, base: int, file: IO[bytes]) -> None:
    numbers = file_numbers(family, base)
    for line in family_lines(renumbered(family, numbers, "")):
        file.write(encode(line) + b"\n")
    for segment in family.segments:
        first = 0
        while first < segment.next:
            batch = await transfer_store(runtime).placed_messages(runtime.namespace, segment.number, first, BATCH)
            for place, running, message in batch:
                if place.position < segment.next:  # the rest was appended after the family was loaded
                    at = {"segment": numbers.segments[segment.number], "position": place.position, "running": running}
                    file.write(encode(lines.message_line(message, **at)) + b"\n")
            first = batch[-1].place.position + 1 if batch else segment.next
    for row in family.sessions:
        async for line in _usage_lines(runtime, row):
            file.write(encode(line) + b"\n")
    file.write(encode(lines.EndLine()) + b"\n")


def file_numbers(family: Family, base: int) -> Renumbering:
    """The numbers of a family in a file."""
    return Renumbering(
        lambda number: number - base + 1,
        ordinals([row.number for row in family.segments]),
        ordinals([row.number for row in family.overlays]),
        ordinals([row.number for row in family.edits]),
    )


def family_lines(family: Family) -> Iterator[Line]:
    """The lines of a family, except its messages, its usage entries and its end."""
    yield lines.FamilyLine(
        number=family.number,
        ids=family.ids,
        segments=len(family.segments),
        overlays=len(family.overlays),
        edits=len(family.edits),
        lineage=family.lineage,
    )
    for segment in family.segments:
        yield lines.SegmentLine(**asdict(segment))
    for overlay in family.overlays:
        yield _overlay_line(overlay)
    for edit in family.edits:
        message = None if edit.message is None else lines.message_line(edit.message, segment=0, position=0, running=0)
        yield lines.EditLine(**{**asdict(edit), "message": message})
    for row in family.sessions:
        yield _session_line(row, family)
        if row.id in family.prompts:
            yield _prompt_line(row.id, family.prompts[row.id])
        for document in family.documents[row.id]:
            yield document_line(Owner("session", row.id), document)


def _overlay_line(row: OverlayRow) -> lines.OverlayLine:
    return lines.OverlayLine(**{**asdict(row), "details": raw(row.details)})


def _session_line(row: SessionRow, family: Family) -> lines.SessionLine:
    bare = replace(row, tags="[]", metadata="{}", namespace="")
    return lines.SessionLine(
        row=bare, tags=raw(row.tags), metadata=raw(row.metadata), view=family.views.get(row.number)
    )


def _prompt_line(session_id: str, prompt: PromptRow) -> lines.PromptLine:
    return lines.PromptLine(session=session_id, **{**asdict(prompt), "blocks": raw(prompt.blocks)})


def document_line(owner: Owner, document: DocumentRow) -> lines.DocumentLine:
    return lines.DocumentLine(owner=owner, **asdict(document))


async def _usage_lines(runtime: Runtime, session: SessionRow) -> AsyncIterator[lines.UsageLine]:
    after = ""
    while batch := await transfer_store(runtime).usage_entries(runtime.namespace, session.id, after, BATCH):
        for entry in batch:
            amounts = {name: getattr(entry, name) for name in _USAGE}
            yield lines.UsageLine(
                session=session.id, id=entry.id, day=entry.day, model=entry.model, at=entry.at, **amounts
            )
        after = batch[-1].id


async def _shared_lines(runtime: Runtime) -> AsyncIterator[Line]:
    """What belongs to no session: documents of guests, agents and the namespace, totals, states."""
    store, namespace = transfer_store(runtime), runtime.namespace
    for owner in sorted_owners(await store.document_owners(namespace)):
        for document in await load_documents(runtime, owner):
            yield document_line(owner, document)
    days = await store.usage_days(namespace)
    for day in sorted(days, key=lambda row: [part or "" for part in (row.day, row.model, row.agent, row.channel)]):
        amounts = {name: getattr(day, name) for name in _USAGE}
        yield lines.DayLine(day=day.day, model=day.model, agent=day.agent, channel=day.channel, **amounts)
    async for key, row in all_states(runtime):
        yield lines.StateLine(id=key.id, name=key.name, **{**asdict(row), "value": raw(row.value)})
    for url in await runtime.store.state_stores(namespace):
        yield lines.StateStoreLine(url=url)


async def all_states(runtime: Runtime) -> AsyncIterator[tuple[StateKey, StateRow]]:
    name = id = ""
    while batch := await transfer_store(runtime).states_after(runtime.namespace, name, id, BATCH):
        for key, row in batch:
            yield key, row
        name, id = batch[-1][0].name, batch[-1][0].id


def sorted_owners(owners: list[Owner]) -> list[Owner]:
    return sorted(owners, key=lambda owner: [part or "" for part in owner.parts])
