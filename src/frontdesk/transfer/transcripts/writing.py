"""Stores the steps of a transcript. Messages go through the same checks as any append, but start no background work and
no hooks. What is stored already, by its id, is left alone: so an import can be repeated, and continues where another
one was interrupted."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError, NotFoundError, SessionEndedError
from frontdesk.messages import check_id
from frontdesk.messages.ingestion import ingest_message
from frontdesk.messages.stored import StoredMessage
from frontdesk.transfer.transcripts import TranscriptFormat
from frontdesk.transfer.transcripts.index import NOWHERE, EntryIndex, Spot
from frontdesk.transfer.transcripts.rehearsal import Rehearsal
from frontdesk.transfer.transcripts.steps import (
    Broken,
    Compacted,
    Current,
    Described,
    Opened,
    Skipped,
    Step,
    TranscriptEntry,
    Used,
)
from frontdesk.transfer.transcripts.tally import Tally
from frontdesk.transfer.transcripts.target import Target


class TranscriptWriter:
    """Takes the steps of one file."""

    def __init__(self, runtime: Runtime, format: TranscriptFormat, tally: Tally, rehearsal: Rehearsal | None) -> None:
        self._runtime = runtime
        self._format = format
        self._tally = tally
        self._rehearsal = rehearsal
        self._session: SessionWriter | None = None

    async def take(self, step: Step) -> None:
        match step:
            case Broken():
                self._tally.report_problem(step.line, step.problem)
            case Skipped():
                self._tally.skipped[step.kind] += 1
            case Opened():
                await self.finish()
                self._session = await self._open(step)
            case _ if self._session is not None:
                await self._take(self._session, step)

    async def finish(self) -> None:
        """End the session that is open."""
        session, self._session = self._session, None
        if session is not None:
            try:
                await session.finish()
            except SessionEndedError as error:
                self._tally.report_problem(0, error)
            finally:
                session.close()

    async def _open(self, step: Opened) -> SessionWriter | None:
        """The writer of a session, unless it belongs to somebody else: a file must not write to any session whose id
        it names."""
        try:
            check_id(step.id, "session id")
        except InvalidInputError as error:
            self._tally.report_problem(0, error)
            return None
        target = Target(self._runtime, step, self._format, self._tally, self._rehearsal)
        source = await target.load()
        if source not in (None, self._format):
            self._tally.report_problem(0, f"session {step.id!r} exists, and was not imported from {self._format}")
            return None
        return SessionWriter(self._runtime, target, self._tally)

    async def _take(self, session: SessionWriter, step: Step) -> None:
        try:
            await session.take(step)
        except SessionEndedError as error:
            self._tally.report_problem(0, error)
            session.close()
            self._session = None


class SessionWriter:
    """Puts the entries of one session into its tree."""

    def __init__(self, runtime: Runtime, target: Target, tally: Tally) -> None:
        self._runtime = runtime
        self._target = target
        self._tally = tally
        self._index = EntryIndex()
        self._last = NOWHERE
        """the spot of the last entry"""
        self._current: str | None = None

    def close(self) -> None:
        self._index.close()

    async def take(self, step: Step) -> None:
        match step:
            case TranscriptEntry():
                await self._add(step)
            case Compacted():
                await self._compact(step)
            case Used():
                await self._use(step)
            case Described():
                self._target.described.update(step.values)
            case Current():
                self._current = step.id

    async def finish(self) -> None:
        spot = self._index.get(self._current) or self._last
        await self._target.finish(spot.stored)

    async def _add(self, entry: TranscriptEntry) -> None:
        if entry.id in self._index:
            self._tally.skipped["repeated record"] += 1
            return
        parent = self._parent_of(entry)
        stored = self._ingest(entry)
        if stored is None:
            spot = Spot(parent.stored, parent.root, parent.stored)
        else:
            spot = Spot(stored.id, parent.root or stored.id, parent.stored)
        self._index.put(entry.id, spot)
        self._last = spot
        if stored is not None:
            await self._target.append(stored, parent.stored)

    def _parent_of(self, entry: TranscriptEntry) -> Spot:
        """Where the entry's parent is. If the file does not have it, the entry follows the one before it."""
        if entry.parent is None:
            return NOWHERE
        spot = self._index.get(entry.parent)
        if spot is None:
            problem = "the record follows one that is not in the file: it was put after the record before it"
            self._tally.report_problem(entry.line, problem)
            return self._last
        return spot

    def _ingest(self, entry: TranscriptEntry) -> StoredMessage | None:
        if entry.message is None:
            if entry.kind:
                self._tally.skipped[entry.kind] += 1
            return None
        settings = self._runtime.settings
        at = self._target.moment(entry.at)
        try:
            found = ingest_message(entry.message, settings.counter, settings.max_message_bytes, at)
        except InvalidInputError as error:
            self._tally.report_problem(entry.line, error)
            return None
        return msgspec.structs.replace(found.stored, created_at=at)

    async def _compact(self, step: Compacted) -> None:
        last = self._index.get(step.last) or NOWHERE
        kept = self._index.get(step.first_kept)
        end = last.stored if kept is None else kept.before
        if last.root is None or end is None:
            if step.instead is not None:
                await self._add(step.instead)
            return
        try:
            await self._target.compact(step, last.root, end)
        except (InvalidInputError, NotFoundError) as error:
            self._tally.report_problem(step.line, error)
        if step.instead is not None:
            await self._add(replace(step.instead, message=None, kind=""))

    async def _use(self, step: Used) -> None:
        try:
            await self._target.use(step)
        except InvalidInputError as error:
            self._tally.report_problem(step.line, error)
