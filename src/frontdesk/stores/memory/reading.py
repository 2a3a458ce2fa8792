"""Reading from the memory store: views and their pieces, and the shape of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from frontdesk.messages.stored import derived_of
from frontdesk.store import (
    EditItem,
    EditRow,
    FoundMessage,
    Item,
    Lineage,
    OverlayItem,
    OverlayRow,
    Piece,
    Place,
    SegmentRow,
    SessionRow,
    Span,
    TreeRows,
    ViewRead,
    ViewRow,
)
from frontdesk.stores.memory.rows import Rows
from frontdesk.tree.tree import stored_items

_EVERY_REVISION = 1 << 62


def view(rows: Rows, namespace: str, session_id: str, last: int | None = None) -> ViewRead | None:
    session = rows.get(namespace, session_id)
    if session is None:
        return None
    stored = rows.views.get(session.number, ViewRow())
    items = tuple(stored_items(session, stored, last))
    return ViewRead(session, stored, items, read(rows, items))


def read(rows: Rows, items: Sequence[Item]) -> tuple[Piece, ...]:
    return tuple(_piece(rows, item) for item in items)


def _piece(rows: Rows, item: Item) -> Piece:
    before = None
    if item.before is not None:
        row = rows.messages.get(item.before.segment, {}).get(item.before.position)
        before = None if row is None else row.message.id
    if isinstance(item, OverlayItem):
        return Piece(before, overlay=rows.overlays.get(item.number))
    if isinstance(item, EditItem):
        edit = rows.edits.get(item.number)
        return Piece(before, (edit.message,) if edit is not None and edit.message is not None else ())
    stored = rows.messages.get(item.segment, {})
    found = (stored.get(position) for position in range(item.first, item.last + 1))
    return Piece(before, tuple(row.message for row in found if row is not None))


def sums(rows: Rows, places: Sequence[Place]) -> list[tuple[int, int]]:
    found = [rows.messages.get(place.segment, {}).get(place.position) for place in places]
    return [(0, 0) if row is None else (row.message.tokens, row.running) for row in found]


def tally(rows: Rows, spans: Sequence[Span]) -> list[tuple[str, int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for span in spans:
        for message in _piece(rows, span).messages:
            role = "tool" if message.role == "user" and derived_of(message).results else message.role
            messages, tokens = found.get(role, (0, 0))
            found[role] = (messages + 1, tokens + message.tokens)
    return [(role, *counts) for role, counts in sorted(found.items())]


def trees(
    rows: Rows, namespace: str, session_ids: Sequence[str], *, find: Sequence[str] = (), family: bool = False
) -> list[TreeRows]:
    found = (rows.get(namespace, session_id) for session_id in session_ids)
    return [_tree(rows, session, find, family) for session in found if session is not None]


def _tree(rows: Rows, session: SessionRow, find: Sequence[str], family: bool) -> TreeRows:
    relatives: tuple[SessionRow, ...] = ()
    lineage = lineage_of(rows, [session.tree])
    untils = _untils(session.tree, lineage)
    if family:
        relatives = tuple(rows.sessions[number] for number in sorted(rows.by_family[session.family]))
        trees = {row.tree for row in relatives}
        lineage = lineage_of(rows, trees)
        untils = dict.fromkeys(sorted(trees | {link.ancestor for link in lineage}), _EVERY_REVISION)
    return TreeRows(
        session=session,
        view=rows.views.get(session.number, ViewRow()),
        segments=tuple(rows.segments[number] for number in _segments_of(rows, session, untils if family else ())),
        overlays=tuple(replace(row, summary=None) for row in _overlays_until(rows, untils)),
        edits=tuple(_edits_until(rows, untils)),
        lineage=tuple(lineage),
        forked_until=max(rows.forks_of.get(session.tree, {}).values(), default=-1),
        found=tuple(
            FoundMessage(message_id, place, rows.message_at(place).tokens)
            for message_id in find
            for place in rows.places.get((session.family, message_id), ())
        ),
        sessions=relatives,
    )


def _segments_of(rows: Rows, session: SessionRow, trees: Iterable[int]) -> list[int]:
    """The segments that a session owns and inherits, and those of more trees."""
    numbers = {number for tree in (session.tree, *trees) for number in rows.segments_of.get(tree, ())}
    base = session.base
    while base is not None:
        numbers.add(base.segment)
        base = rows.segments[base.segment].parent
    return sorted(numbers)


def lineage_of(rows: Rows, trees: Iterable[int]) -> list[Lineage]:
    """The lineage on the way up from these trees, each row once."""
    links: dict[int, Lineage] = {}
    for tree in trees:
        while tree not in links and (link := rows.lineage.get(tree)):
            links[tree] = link
            tree = link.ancestor
    return list(links.values())


def edits_of(rows: Rows, tree: int) -> list[EditRow]:
    """The edits that a tree made or inherited."""
    return _edits_until(rows, _untils(tree, lineage_of(rows, [tree]))) if rows.edits else []


def _untils(tree: int, lineage: Iterable[Lineage]) -> dict[int, int]:
    """The trees whose overlays and edits a tree sees, each with the last revision it sees."""
    return {tree: _EVERY_REVISION, **{link.ancestor: link.until for link in lineage}}


def _edits_until(rows: Rows, untils: Mapping[int, int]) -> list[EditRow]:
    found = (rows.edits[number] for tree in untils for number in rows.edits_of.get(tree, ()))
    return sorted((row for row in found if row.revision <= untils[row.tree]), key=lambda row: row.number)


def _overlays_until(rows: Rows, untils: Mapping[int, int]) -> list[OverlayRow]:
    found = (rows.overlays[number] for tree in untils for number in rows.overlays_of.get(tree, ()))
    return sorted((row for row in found if row.revision <= untils[row.tree]), key=lambda row: row.number)


def segments(rows: Rows, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
    return [rows.segments[number] for number in numbers if number in rows.segments]


def by_number(rows: Rows, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
    return [rows.sessions[number] for number in dict.fromkeys(numbers) if number in rows.sessions]


def relatives(
    rows: Rows,
    namespace: str,
    families: Sequence[int],
    *,
    trees: Sequence[int] | None = None,
    latest: int | None = None,
) -> list[SessionRow]:
    found: list[SessionRow] = []
    wanted = None if trees is None else set(trees)
    for family in dict.fromkeys(families):
        related = [rows.sessions[number] for number in sorted(rows.by_family.get(family, ()))]
        if wanted is not None:
            related = [row for row in related if row.tree in wanted]
        if latest is not None:
            related = sorted(related, key=lambda row: (row.last_active_at, row.number), reverse=True)[:latest]
        found += related
    return found


def families(rows: Rows, namespace: str, after: int, limit: int) -> list[int]:
    known = {row.family for row in rows.sessions.values() if row.namespace == namespace}
    return sorted(family for family in known if family > after)[:limit]
