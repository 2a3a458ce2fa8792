"""Attributes hits to sessions. Forks share messages, but each text is returned once: for the session that owns it if
that session sees it, otherwise for the most recently active session that does. A session that may not be shown does
not count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.search.access import Access
from frontdesk.search.request import Request
from frontdesk.store import Address, IndexMatch, SessionRow, TextKind, TreeRows
from frontdesk.tree.tree import Tree


class Entry(NamedTuple):
    """A text that matched, its score, and the session to which it is attributed."""

    score: float
    match: IndexMatch
    row: SessionRow


async def attribute_hits(
    runtime: Runtime, request: Request, matches: Sequence[IndexMatch], access: Access
) -> dict[Address, SessionRow]:
    """For each text that a session sees which passes the filters and may be shown: such a session."""
    families = sorted({match.family for match in matches})
    rows = await runtime.store.relatives(runtime.namespace, families) if families else []
    sessions: dict[int, list[SessionRow]] = {}
    for row in rows:
        sessions.setdefault(row.family, []).append(row)
    shown = await access.admit([row for row in rows if request.accepts(row)] if request.narrows_sessions else rows)
    by_number = {row.number: row for row in shown}
    by_family: dict[int, list[SessionRow]] = {}
    for row in shown:
        by_family.setdefault(row.family, []).append(row)
    to_check = _sessions_to_check(sessions, by_family, matches)
    trees = await runtime.store.trees(runtime.namespace, to_check, family=True) if to_check else []
    viewers = {shape.session.family: _viewers_of_family(shape, by_number) for shape in trees}
    found: dict[Address, SessionRow] = {}
    for match in matches:
        kind, number, _ = match.address
        if kind == "session":
            seen = by_number.get(number)
        elif match.family in viewers:
            seen = viewers[match.family].first(match)
        else:
            seen = next(iter(by_family.get(match.family, ())), None)
        if seen is not None and request.is_in_time(match.time_in(seen)):
            found[match.address] = seen
    return found


def _sessions_to_check(
    sessions: dict[int, list[SessionRow]], shown: dict[int, list[SessionRow]], matches: Iterable[IndexMatch]
) -> list[str]:
    """One session of each family in which visibility has to be checked: with several sessions, or with replaced
    messages. A session that is alone in its family sees everything that is stored for it."""
    edited = {match.family for match in matches if match.address.kind == "edit"}
    return [rows[0].id for family, rows in sessions.items() if family in shown and (len(rows) > 1 or family in edited)]


def _viewers_of_family(shape: TreeRows, shown: dict[int, SessionRow]) -> Viewers:
    return Viewers((row for row in shape.sessions if row.number in shown), [shape], lambda row: Tree(shape, row))


def viewers_of_trees(trees: Iterable[Tree]) -> Viewers:
    """The sessions of these trees."""
    by_number = {tree.session.number: tree for tree in trees}
    shapes = [tree.rows for tree in by_number.values()]
    return Viewers((tree.session for tree in by_number.values()), shapes, lambda row: by_number[row.number])


class Viewers:
    """Sessions that may be shown, and what each of them sees. Their trees are made when they are needed."""

    def __init__(
        self, rows: Iterable[SessionRow], shapes: Iterable[TreeRows], make_tree: Callable[[SessionRow], Tree]
    ) -> None:
        self._by_activity = sorted(rows, key=lambda row: (-row.last_active_at, -row.number))
        self._by_number = {row.number: row for row in self._by_activity}
        self._by_tree = {row.tree: row for row in self._by_activity}
        self._make_tree = make_tree
        self._trees: dict[int, Tree] = {}
        self._owners: dict[tuple[TextKind, int], int] = {}
        for shape in shapes:
            self._owners.update({("message", row.number): row.tree for row in shape.segments})
            self._owners.update({("edit", row.number): row.tree for row in shape.edits})
            self._owners.update({("overlay", row.number): row.tree for row in shape.overlays})

    def first(self, match: IndexMatch) -> SessionRow | None:
        """The session to which a text is attributed; None if none of them sees it."""
        kind, number, _ = match.address
        if kind == "session":
            return self._by_number.get(number)
        owner = self._by_tree.get(self._owners.get((kind, number), 0))
        if owner is not None and self._sees(owner, match):
            return owner
        return next((row for row in self._by_activity if self._sees(row, match)), None)

    def _sees(self, row: SessionRow, match: IndexMatch) -> bool:
        tree = self._trees.get(row.number)
        if tree is None:
            tree = self._trees[row.number] = self._make_tree(row)
        return sees(tree, match)


def sees(tree: Tree, match: IndexMatch) -> bool:
    """Whether a session sees a text: a message that it has not replaced, its own replacement, or a summary."""
    kind, number, _ = match.address
    if kind == "overlay":
        return tree.shows_summary(number)
    if match.place is None or not tree.sees(match.place):
        return False
    edit = tree.replaced.get(match.place)
    return edit is None if kind == "message" else edit is not None and edit.number == number
