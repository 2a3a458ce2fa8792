"""The session that a transcript is imported into. Messages and usage entries are written in batches. In a dry run,
what is not there yet is only counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from frontdesk.compaction import overlays
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.history import trees
from frontdesk.lifecycle.usage import usage_entry
from frontdesk.messages.stored import StoredMessage
from frontdesk.moments import to_datetime
from frontdesk.search import index
from frontdesk.session.components import Components
from frontdesk.session.handle import Handle
from frontdesk.store import ANY_HEAD, Append, NewOverlay, NewSession, Plan, UsageRow
from frontdesk.transfer.families import transfer_store
from frontdesk.transfer.transcripts import TranscriptFormat
from frontdesk.transfer.transcripts.rehearsal import Rehearsal
from frontdesk.transfer.transcripts.steps import Compacted, Opened, Used
from frontdesk.transfer.transcripts.tally import Tally
from frontdesk.tree import plans
from frontdesk.tree.tree import Tree
from frontdesk.unattended import sleep

_MESSAGES = 200
_PAGE = 10
_BYTES = 4_000_000
"""what is written at once, at most"""


class _Pending(NamedTuple):
    """A message to append after another one, or (None) at a root."""

    message: StoredMessage
    parent: str | None


class Target:
    """Knows what the session has already, and adds the rest. Nothing is written before there is something to write."""

    def __init__(
        self,
        runtime: Runtime,
        opened: Opened,
        format: TranscriptFormat,
        tally: Tally,
        rehearsal: Rehearsal | None,
    ) -> None:
        self._runtime = runtime
        self._opened = opened
        self._format = format
        self._tally = tally
        self._rehearsal = rehearsal
        """what is written in a dry run, instead of the session"""
        self._parts = Components(Handle(runtime, opened.id))
        self.described: dict[str, str] = {}
        """columns that are set at the end, unless the session has a value"""
        self._time = opened.at
        """of the last message"""
        self._existed = self._is_rehearsed = self._is_there = False
        self._compactions: set[str] = set()
        self._messages: list[_Pending] = []
        self._usage: list[UsageRow] = []
        self._bytes = 0
        self._newest: str | None = None
        """the message that was inserted last"""

    async def load(self) -> str | None:
        """Find out what is there. Returns the source that the session comes from, None if it does not exist."""
        format = None if self._rehearsal is None else self._rehearsal.format_of(self._opened.id)
        self._is_rehearsed = self._is_there = format is not None
        tree = await trees.load_tree(self._runtime, self._opened.id)
        if tree is None:
            return format
        self._existed = self._is_there = True
        self._compactions = {overlay.id for overlay in tree.overlays}
        return tree.session.source or ""

    def moment(self, at: int | None) -> int:
        """The time of an entry. One that has none is as old as the one before it."""
        if at is not None:
            self._time = at
        elif self._time is None:
            self._time = self._runtime.now()
        return self._time

    # messages

    async def append(self, message: StoredMessage, parent: str | None) -> None:
        self._messages.append(_Pending(message, parent))
        self._bytes += len(message.raw)
        if len(self._messages) >= _MESSAGES or self._bytes >= _BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write what is pending."""
        messages, self._messages, self._bytes = self._messages, [], 0
        entries, self._usage = self._usage, []
        if messages or entries:
            await self._ensure(messages[0].message.created_at if messages else entries[0].at)
        for run in _runs(messages, await self._known(messages)):
            await self._append(run)
        await self._record(entries)
        await sleep(0)  # a dry run may have nothing to wait for

    async def _ensure(self, first: int) -> None:
        """Create the session, unless it is there. It began when it says so, or with what it has first."""
        if self._rehearsal is not None:
            self._rehearsal.add_session(self._opened.id, self._format)
        if self._is_there:
            return
        self._is_there = True
        self._tally.counts["sessions"] += 1
        if self._rehearsal is None:
            new = NewSession(
                namespace=self._runtime.namespace,
                id=self._opened.id,
                now=first if self._opened.at is None else self._opened.at,
                parent_session_id=self._opened.parent,
                source=self._format,
            )
            await self._runtime.store.create(new)

    async def _known(self, messages: list[_Pending]) -> set[str]:
        """The ids of the messages that the session has already."""
        ids = [pending.message.id for pending in messages]
        known: set[str] = set()
        if self._existed and messages:
            tree = await trees.load_tree(self._runtime, self._opened.id, find=ids)
            known = set() if tree is None else {id for id in ids if tree.find(id) is not None}
        if self._rehearsal is not None and self._is_rehearsed:
            known |= self._rehearsal.known(self._opened.id, "message", ids)
        self._tally.counts["known"] += len(known)
        return known

    async def _append(self, run: list[_Pending]) -> None:
        self._newest = run[-1].message.id
        if self._rehearsal is not None:
            self._rehearsal.add(self._opened.id, "message", [pending.message.id for pending in run])
        else:
            request = Append(
                namespace=self._runtime.namespace,
                session_id=self._opened.id,
                messages=tuple(pending.message for pending in run),
                fresh=(False,) * len(run),
                now=self._runtime.now(),
                parent=run[0].parent,
                existing=True,
            )
            await self._runtime.store.append(request)
            index.record_change(self._runtime, len(run))
        self._tally.counts["messages"] += len(run)

    # usage

    async def use(self, step: Used) -> None:
        """Add a usage entry. Raises `InvalidInputError`."""
        id = f"{step.id}#{step.tokens['input_tokens']}/{step.tokens['output_tokens']}"
        before = await self._recorded(step.id)
        if any(entry.id == id for entry in before):
            return
        self._usage.append(
            usage_entry(
                self._runtime.now(),
                {name: _rest_of(count, before, name) for name, count in step.tokens.items()},
                cost=_rest_of_cost(step.cost, before),
                model=step.model,
                usage_id=id,
                at=None if step.at is None else to_datetime(step.at),
            )
        )
        if len(self._usage) >= _MESSAGES:
            await self.flush()

    async def _recorded(self, call: str) -> list[UsageRow]:
        """The entries of a call that were there before the import."""
        found: list[UsageRow] = []
        if self._rehearsal is not None and self._is_rehearsed:
            found += self._rehearsal.usage(self._opened.id, call)
        prefix = after = f"{call}#"
        while self._existed:
            batch = await transfer_store(self._runtime).usage_entries(
                self._runtime.namespace, self._opened.id, after, _PAGE
            )
            found += [entry for entry in batch if entry.id.startswith(prefix)]
            if len(batch) < _PAGE or not batch[-1].id.startswith(prefix):
                break
            after = batch[-1].id
        return found

    async def _record(self, entries: list[UsageRow]) -> None:
        if self._rehearsal is not None:
            self._tally.counts["usage_entries"] += self._rehearsal.add_usage(self._opened.id, entries)
            return
        add, namespace = self._runtime.store.add_usage, self._runtime.namespace
        added = await asyncio.gather(*(add(namespace, self._opened.id, entry) for entry in entries))
        self._tally.counts["usage_entries"] += sum(added)

    # compactions

    async def compact(self, step: Compacted, first: str, last: str) -> None:
        """Add a compaction of a range, unless there is one with its id. Raises `InvalidRangeError`,
        `MessageNotFoundError`."""
        await self.flush()
        if step.id in self._compactions or self._is_compaction_rehearsed(step.id):
            return
        if self._rehearsal is None:
            await self._cover(step, first, last)
        else:
            self._rehearsal.add(self._opened.id, "compaction", [step.id])
        self._compactions.add(step.id)
        self._tally.counts["compactions"] += 1

    def _is_compaction_rehearsed(self, id: str) -> bool:
        return self._rehearsal is not None and bool(self._rehearsal.known(self._opened.id, "compaction", [id]))

    async def _cover(self, step: Compacted, first: str, last: str) -> None:
        runtime = self._runtime

        async def build(tree: Tree) -> Plan | None:
            covered = await overlays.range_between(runtime, tree, first, last)
            overlay = NewOverlay(
                id=step.id,
                kind="truncate" if step.summary is None else "summary",
                start=covered.start,
                end=covered.end,
                summary=step.summary,
                tokens=runtime.summary_tokens(step.summary),
                created_at=self.moment(step.at),
                details=f'{{"trigger":"{self._format}"}}',
            )
            return plans.add_overlay(tree, overlay, runtime.now())

        await self._parts.handle.change(build, find=[first, last], family=True)

    # the end

    async def finish(self, head: str | None) -> None:
        """Write the rest, and make a message the head, if the import has added any."""
        await self.flush()
        if self._rehearsal is not None or not self._is_there:
            return
        if self._newest is not None and head is not None and head != self._newest:
            await self._parts.remover.switch(head, ANY_HEAD)
        row = await self._parts.handle.row()
        missing = {name: value for name, value in self.described.items() if not getattr(row, name)}
        if missing:
            await self._parts.handle.set(lambda now: {k: v for k, v in missing.items() if not getattr(now, k)})


def _rest_of(count: int, before: list[UsageRow], name: str) -> int:
    """A count without what was recorded before."""
    recorded: int = sum(getattr(entry, name) for entry in before)
    return max(count - recorded, 0)


def _rest_of_cost(cost: str, before: list[UsageRow]) -> Decimal:
    """A cost without what was recorded before. Raises `InvalidInputError`."""
    try:
        return max(Decimal(cost) - sum((Decimal(entry.cost) for entry in before), Decimal(0)), Decimal(0))
    except InvalidOperation:
        raise InvalidInputError(f"{cost!r} is not a cost") from None


def _runs(messages: list[_Pending], known: set[str]) -> Iterator[list[_Pending]]:
    """The new messages, split into runs in which each follows the one before it."""
    run: list[_Pending] = []
    for pending in messages:
        if pending.message.id in known:
            continue
        if run and pending.parent != run[-1].message.id:
            yield run
            run = []
        run.append(pending)
    if run:
        yield run
