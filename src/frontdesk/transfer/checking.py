"""Checks a namespace: whether counters, views, places and records say what the rows say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import DamagedRecordError, StoreCorruptError
from frontdesk.messages.stored import derived_of
from frontdesk.records import CheckProblem, CheckReport
from frontdesk.store import PlacedMessage, Restore, RestoredSession, SegmentRow, SessionRow, Span, TreeRows
from frontdesk.transfer.families import BATCH, Family, load_family, transfer_store
from frontdesk.transfer.problems import Problems
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree
from frontdesk.tree.usage import sum_costs


async def check_namespace(runtime: Runtime, *, fix: bool, on_progress: Callable[[int, int], Any] | None) -> CheckReport:
    """See `SessionManager.check`."""
    checker = Checker(runtime, fix=fix)
    after = done = 0
    while numbers := await runtime.store.families(runtime.namespace, after, BATCH):
        for number in numbers:
            await checker.check_family(number)
            done += 1
            if on_progress is not None:
                on_progress(done, done)
        after = numbers[-1]
    await checker.check_unfinished()
    return checker.report()


class Checker:
    """Collects what is wrong. With `fix`, what can be computed again is written at once."""

    def __init__(self, runtime: Runtime, *, fix: bool) -> None:
        self._runtime = runtime
        self._store = transfer_store(runtime)
        self._fix = fix
        self._problems: Problems[CheckProblem] = Problems()
        self._sessions = self._messages = 0

    def report(self) -> CheckReport:
        return CheckReport(
            sessions=self._sessions,
            messages=self._messages,
            problems=self._problems.first,
            problems_total=self._problems.total,
        )

    def _report(self, session_id: str, kind: str, problem: str, *, fixed: bool = False) -> None:
        self._problems.add(CheckProblem(kind, session_id, problem, fixed))

    async def check_family(self, number: int) -> None:
        """Check the sessions that share messages, and everything that belongs to them."""
        family = await load_family(self._runtime, number)
        if family is None:
            return
        name = family.sessions[0].id
        positions: dict[int, set[int]] = {}
        for segment in family.segments:
            positions[segment.number] = await self._check_segment(name, segment)
        self._check_overlays(name, family)
        for session in family.sessions:
            await self._check_session(session, positions)
        self._sessions += len(family.sessions)

    async def check_unfinished(self) -> None:
        """Find what an import that was killed has left."""
        namespace = self._runtime.namespace
        for family, session_id in await self._store.unfinished_families(namespace):
            if self._fix:
                await self._store.remove_unfinished(namespace, family)
            problem = "an import has written a part of the session: if it was interrupted, import again"
            self._report(session_id, "unfinished import", problem, fixed=self._fix)

    async def _check_segment(self, name: str, segment: SegmentRow) -> set[int]:
        """Check the messages of a segment, and return their positions."""
        found: set[int] = set()
        first = 0
        while first < segment.next:
            try:
                batch = await self._store.placed_messages(self._runtime.namespace, segment.number, first, BATCH)
            except (DamagedRecordError, StoreCorruptError) as error:
                self._report(name, "damaged record", str(error))
                return found | set(range(first, segment.next))  # nothing is known of the rest
            for placed in batch:
                self._check_message(name, placed)
                found.add(placed.place.position)
            first = batch[-1].place.position + 1 if batch else segment.next
        self._messages += len(found)
        return found

    def _check_message(self, name: str, placed: PlacedMessage) -> None:
        message = placed.message
        try:
            msgspec.json.decode(message.raw)
            derived_of(message)
        except msgspec.DecodeError as error:
            self._report(name, "damaged record", f"message {message.id!r} cannot be read: {error}")

    def _check_overlays(self, name: str, family: Family) -> None:
        ends = {segment.number: segment.next for segment in family.segments}
        for overlay in family.overlays:
            if any(place.position >= ends.get(place.segment, 0) for place in (overlay.start, overlay.end)):
                self._report(name, "compaction", f"{overlay.id!r} covers places that do not exist")

    async def _check_session(self, session: SessionRow, positions: dict[int, set[int]]) -> None:
        trees = await self._runtime.store.trees(self._runtime.namespace, [session.id])
        if not trees or trees[0].session.revision != session.revision:
            return  # it was changed or deleted meanwhile
        tree = Tree(trees[0])
        self._check_places(tree, positions)
        wrong = await self._wrong_values(tree)
        for what, (stored, right) in wrong.items():
            self._report(session.id, "counter", f"{what} is {stored}, and should be {right}", fixed=self._fix)
        if wrong and self._fix:
            await self._repair(trees[0], {what: right for what, (_, right) in wrong.items()})

    def _check_places(self, tree: Tree, positions: dict[int, set[int]]) -> None:
        """Check that what a session sees is there."""
        for segment in tree.visible_segments():
            known = positions.get(segment.number, set())
            for item in tree.segment_items(segment.number):
                if isinstance(item, Span):
                    missing = [at for at in range(item.first, item.last + 1) if at not in known]
                    if missing:
                        self._report(tree.session.id, "missing messages", f"{len(missing)} messages are not there")
        head = tree.session.head
        if head is not None and head.position not in positions.get(head.segment, {head.position}):
            self._report(tree.session.id, "head", "the head is a message that is not there")

    async def _wrong_values(self, tree: Tree) -> dict[str, tuple[Any, Any]]:
        """The columns of a session that differ from what its rows add up to: stored, and right."""
        session = tree.session
        right: dict[str, Any] = {
            "message_count": sum(count(tree.segment_items(row.number)) for row in tree.visible_segments()),
            "compaction_count": len(tree.overlays),
            **await self._usage(session),
        }
        if session.view != "stale":
            items = tree.lay(session.head)
            places = tree.needed_sums(items)
            sums = dict(zip(places, await self._runtime.store.sums(places), strict=True)) if places else {}
            right |= {"view_tokens": tree.tokens(items, sums), "view_messages": count(items)}
        stored = {name: getattr(session, name) for name in right}
        return {name: (stored[name], right[name]) for name in right if stored[name] != right[name]}

    async def _usage(self, session: SessionRow) -> dict[str, Any]:
        read, written, cost, after = 0, 0, "0", ""
        while batch := await self._store.usage_entries(self._runtime.namespace, session.id, after, BATCH):
            read += sum(entry.input_tokens for entry in batch)
            written += sum(entry.output_tokens for entry in batch)
            cost = sum_costs(cost, *(entry.cost for entry in batch))
            after = batch[-1].id
        same = sum_costs(session.cost) == cost
        return {"input_tokens": read, "output_tokens": written, "cost": session.cost if same else cost}

    async def _repair(self, rows: TreeRows, values: dict[str, Any]) -> None:
        """Write the right values, unless the session has changed since."""
        now = await self._runtime.store.get(self._runtime.namespace, rows.session.id)
        if now != rows.session:
            return
        view = None if rows.session.view != "stored" else rows.view
        repaired = RestoredSession(replace(rows.session, **values), view)
        await self._store.restore(Restore(namespace=self._runtime.namespace, sessions=(repaired,)))
