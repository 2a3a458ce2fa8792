"""Reading from the memory store: what a session sees, the shape of its tree, and the rows of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from frontdesk.store import (
    Choose,
    EditItem,
    EditRow,
    Found,
    Item,
    Lineage,
    OverlayItem,
    OverlayRow,
    Piece,
    Place,
    SessionRow,
    TreeRows,
    ViewRead,
    ViewRow,
)
from frontdesk.stores.memory.rows import Rows

_EVERY_REVISION = 1 << 62


class Reading(Rows):
    """The reads of the seam."""

    def _untils(self, tree: int) -> dict[int, int]:
        """The trees whose overlays and edits a tree sees, each with the last revision it sees."""
        return {tree: _EVERY_REVISION, **{line.ancestor: line.until for line in self._lines_of([tree])}}

    def _lines_of(self, trees: Iterable[int]) -> list[Lineage]:
        """The lineage on the way up from these trees, each row once."""
        lines: dict[int, Lineage] = {}
        for tree in trees:
            while tree not in lines and (line := self._lineage.get(tree)):
                lines[tree] = line
                tree = line.ancestor
        return list(lines.values())

    def _edits_of(self, session: SessionRow) -> list[EditRow]:
        return self._edits_until(self._untils(session.tree)) if self._edits else []

    def _edits_until(self, untils: dict[int, int]) -> list[EditRow]:
        rows = (self._edits[number] for tree in untils for number in self._edits_of_tree.get(tree, ()))
        return sorted((row for row in rows if row.revision <= untils[row.tree]), key=lambda row: row.number)

    def _overlays_until(self, untils: dict[int, int]) -> list[OverlayRow]:
        rows = (self._overlays[number] for tree in untils for number in self._overlays_of.get(tree, ()))
        return sorted((row for row in rows if row.revision <= untils[row.tree]), key=lambda row: row.number)

    async def view(self, namespace: str, session_id: str, choose: Choose) -> ViewRead | None:
        with self._held():
            session = self._get(namespace, session_id)
            if session is None:
                return None
            items = tuple(choose(session, self._views.get(session.number, ViewRow())))
            return ViewRead(session, items, tuple(self._piece(item) for item in items))

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        with self._held():
            return tuple(self._piece(item) for item in items)

    def _piece(self, item: Item) -> Piece:
        before = None
        if item.before is not None:
            row = self._rows.get(item.before.segment, {}).get(item.before.position)
            before = None if row is None else row.message.id
        if isinstance(item, OverlayItem):
            return Piece(before, overlay=self._overlays.get(item.number))
        if isinstance(item, EditItem):
            edit = self._edits.get(item.number)
            return Piece(before, (edit.message,) if edit is not None and edit.message is not None else ())
        rows = self._rows.get(item.segment, {})
        found = (rows.get(position) for position in range(item.first, item.last + 1))
        return Piece(before, tuple(row.message for row in found if row is not None))

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        with self._held():
            rows = [self._rows.get(place.segment, {}).get(place.position) for place in places]
            return [(0, 0) if row is None else (row.message.tokens, row.running) for row in rows]

    async def tree(
        self, namespace: str, session_id: str, *, find: Sequence[str] = (), family: bool = False
    ) -> TreeRows | None:
        with self._held():
            session = self._get(namespace, session_id)
            return None if session is None else self._tree(session, find, family)

    def _tree(self, session: SessionRow, find: Sequence[str], family: bool) -> TreeRows:
        sessions: tuple[SessionRow, ...] = ()
        untils = self._untils(session.tree)
        lineage = self._lines_of([session.tree])
        if family:
            sessions = tuple(self._sessions[number] for number in sorted(self._by_family[session.family]))
            trees = {row.tree for row in sessions}
            lineage = self._lines_of(trees)
            untils = dict.fromkeys(sorted(trees | {line.ancestor for line in lineage}), _EVERY_REVISION)
        return TreeRows(
            session=session,
            view=self._views.get(session.number, ViewRow()),
            segments=tuple(self._segments[number] for number in self._segments_of(session, untils if family else ())),
            overlays=tuple(replace(row, summary=None) for row in self._overlays_until(untils)),
            edits=tuple(self._edits_until(untils)),
            lineage=tuple(lineage),
            forked_until=max(self._forks_of.get(session.tree, {}).values(), default=-1),
            found=tuple(
                Found(message_id, place, self._rows[place.segment][place.position].message.tokens)
                for message_id in find
                for place in self._ids.get((session.family, message_id), ())
            ),
            sessions=sessions,
        )

    def _segments_of(self, session: SessionRow, trees: Iterable[int]) -> list[int]:
        """The segments that a session owns and inherits, and those of more trees."""
        numbers = {number for tree in (session.tree, *trees) for number in self._owned.get(tree, ())}
        base = session.base
        while base is not None:
            numbers.add(base.segment)
            base = self._segments[base.segment].parent
        return sorted(numbers)
