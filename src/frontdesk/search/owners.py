"""Attributes hits to sessions. Forks share messages, but each text is returned once: for the session that owns it if
that session sees it, otherwise for the most recently active session that does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.search.candidates import Ranked
from frontdesk.search.request import Request
from frontdesk.store import IndexMatch, SessionRow, TreeRows
from frontdesk.tree.tree import Tree


class Entry(NamedTuple):
    """A text that matched, its score, and the session to which it is attributed."""

    score: float
    match: IndexMatch
    row: SessionRow


async def attribute_hits(runtime: Runtime, request: Request, ranked: Sequence[Ranked]) -> list[Entry]:
    """The texts that some session sees that passes the filters, each with such a session."""
    families = sorted({one.match.family for one in ranked})
    rows = await runtime.store.relatives(runtime.namespace, families) if families else []
    sessions: dict[int, list[SessionRow]] = {}
    for row in rows:
        sessions.setdefault(row.family, []).append(row)
    shared = _sessions_to_check(sessions, (one.match for one in ranked))
    trees = await runtime.store.trees(runtime.namespace, shared, family=True) if shared else []
    views = {shape.session.family: _Family(shape) for shape in trees}
    by_number = {row.number: row for row in rows}
    entries = []
    for score, match in ranked:
        kind, number, _ = match.address
        if kind == "session":
            seen: Iterable[SessionRow] = [by_number[number]] if number in by_number else ()
        elif match.family in views:
            seen = views[match.family].sessions_for(match)
        else:
            seen = sessions.get(match.family, ())
        accepted = filter(request.accepts, seen) if request.narrows_sessions else iter(seen)
        shown = next(accepted, None)
        if shown is not None and request.is_in_time(shown.last_active_at if kind == "session" else match.at):
            entries.append(Entry(score, match, shown))
    return entries


def _sessions_to_check(sessions: dict[int, list[SessionRow]], matches: Iterable[IndexMatch]) -> list[str]:
    """One session of each family in which visibility has to be checked: with several sessions, or with replaced
    messages. A session that is alone in its family sees everything that is stored for it."""
    edited = {match.family for match in matches if match.address.kind == "edit"}
    return [rows[0].id for family, rows in sessions.items() if len(rows) > 1 or family in edited]


class _Family:
    """The sessions of one family, and what each of them sees."""

    def __init__(self, shape: TreeRows) -> None:
        self._shape = shape
        self._trees: dict[int, Tree] = {}
        self._owners = {segment.number: segment.tree for segment in shape.segments}
        self._owners_of_edits = {edit.number: edit.tree for edit in shape.edits}
        self._owners_of_overlays = {overlay.number: overlay.tree for overlay in shape.overlays}
        self._by_tree = {row.tree: row for row in shape.sessions}
        self._by_activity = sorted(shape.sessions, key=lambda row: (-row.last_active_at, -row.number))

    def sessions_for(self, match: IndexMatch) -> Iterable[SessionRow]:
        """The sessions that see a text, the preferred one first."""
        kind, number, _ = match.address
        owners = {"message": self._owners, "edit": self._owners_of_edits, "overlay": self._owners_of_overlays}
        owner = self._by_tree.get(owners[kind].get(number, 0))
        if owner is not None and self._sees(owner, match):
            yield owner
        yield from (row for row in self._by_activity if row is not owner and self._sees(row, match))

    def _sees(self, row: SessionRow, match: IndexMatch) -> bool:
        tree = self._trees.get(row.number)
        if tree is None:
            tree = self._trees[row.number] = Tree(self._shape, row)
        return sees(tree, match)


def sees(tree: Tree, match: IndexMatch) -> bool:
    """Whether a session sees a text: a message that it has not replaced, its own replacement, or a summary."""
    kind, number, _ = match.address
    if kind == "overlay":
        return any(overlay.number == number for overlay in tree.overlays)
    if match.place is None or not tree.sees(match.place):
        return False
    edit = tree.replaced.get(match.place)
    return edit is None if kind == "message" else edit is not None and edit.number == number
