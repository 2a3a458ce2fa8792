"""Pure: what other sessions still see of something that one session releases. Decides what a plan may delete, and which
sessions it must guard.

Sessions share messages, overlays and edits only through forks. So a session without forks that was not forked itself
shares nothing, as its own rows say (`is_shared`, `Visibility.shares`). Where they say that it may be shared, the
whole family is loaded, and each function here looks at what every other session really sees.

What is kept for the sake of others may be released by them at the same moment. So a plan guards a *witness* for each
such thing: one session that sees it. Example: F and G are the last two that see message 3, and both delete it. Each
plan keeps the row because the other session sees it, and guards that session as its witness. The plan that is applied
first raises the revision of its session, so that the second one fails its guard, is made again, and deletes the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import EditRow, OverlayRow, Place, SessionRow, Span
from frontdesk.tree.tree import Tree

Guards = tuple[tuple[int, int], ...]


def guard(session: SessionRow) -> Guards:
    return ((session.number, session.revision),)


def other_trees(tree: Tree) -> list[Tree]:
    """What the other sessions see, if the whole family was loaded."""
    return [tree.of(other) for other in tree.rows.sessions if other.number != tree.session.number]


def is_shared(tree: Tree, row: OverlayRow | EditRow) -> bool:
    """Whether other sessions may see an overlay or an edit: it was inherited, or made before the last fork."""
    return row.tree != tree.session.tree or row.revision <= tree.rows.forked_until


def sees_alone(tree: Tree, overlay: OverlayRow, others: Sequence[Tree]) -> bool:
    """Whether only this session sees an overlay."""
    if not tree.rows.sessions:
        return not is_shared(tree, overlay)
    return not any(overlay.number == seen.number for other in others for seen in other.overlays)


def cut_texts(tree: Tree, overlays: Iterable[OverlayRow], others: Sequence[Tree]) -> tuple[int, ...]:
    """Those of some summaries whose texts no session sees once this one has released them. Others may still see such an
    overlay, without its text."""
    kinds = {row.number: row.kind for row in tree.rows.overlays}

    def is_seen(overlay: OverlayRow) -> bool:
        if not tree.rows.sessions:
            return is_shared(tree, overlay)
        return any(other.shows_summary(overlay.number) for other in others)

    return tuple(row.number for row in overlays if kinds[row.number] == "summary" and not is_seen(row))


def superseded(tree: Tree, places: Iterable[Place], others: Sequence[Tree]) -> tuple[int, ...]:
    """The replacements at these places that no session sees once this one has released its own."""

    def is_seen(edit: EditRow, place: Place) -> bool:
        if not tree.rows.sessions:
            return is_shared(tree, edit)
        return any(other.replaced.get(place) == edit and other.sees(place) for other in others)

    wanted = set(places)
    replaced = ((edit, Place(edit.segment, edit.first)) for edit in tree.rows.edits if edit.kind == "replaced")
    return tuple(edit.number for edit, place in replaced if place in wanted and not is_seen(edit, place))


def rows_to_delete(tree: Tree, others: Sequence[Tree], runs: Iterable[Span]) -> Iterator[Span]:
    """The parts of removed runs whose rows no other session sees.

    Without the family only the shared part of a segment is known: of run 3..7, shared up to 5, rows 6..7 go."""
    for run in runs:
        if tree.rows.sessions:
            yield from seen_by_none(others, run)
        elif tree.owns(run.segment):
            first = max(run.first, tree.segments[run.segment].shared + 1)
            if first <= run.last:
                yield Span(run.segment, first, run.last, None)


def seen_by_none(trees: Sequence[Tree], run: Span) -> list[Span]:
    """The parts of a run of messages that none of these sessions sees."""
    unseen = [
        Place(run.segment, position)
        for position in range(run.first, run.last + 1)
        if not any(tree.sees(Place(run.segment, position)) for tree in trees)
    ]
    return list(joined(unseen))


def hidden_row(
    place: Place, trees: Iterable[Tree], message: StoredMessage | None = None
) -> tuple[tuple[Place, StoredMessage, int], ...]:
    """A new content for the row at a place, if the old one is seen by none of these sessions: each that sees the
    message has replaced it.

    The new content is `message`, or that of one of the replacements: the row itself must stay, because the message is
    seen. Example: A and B see message 3, both replaced it. Nobody sees the text in the row, and it is overwritten."""
    for tree in trees:
        if tree.sees(place):
            edit = tree.replaced.get(place)
            if edit is None or edit.message is None:
                return ()
            message = message or edit.message
    return () if message is None else ((place, message, 0),)


def joined(places: Iterable[Place]) -> Iterator[Span]:
    """Neighbouring places as runs: 3, 4, 5 and 9 are 3..5 and 9..9."""
    run: Span | None = None
    for place in sorted(set(places)):
        if run and run.segment == place.segment and place.position == run.last + 1:
            run = Span(run.segment, run.first, place.position, None)
            continue
        if run:
            yield run
        run = Span(place.segment, place.position, place.position, None)
    if run:
        yield run


class Witnesses:
    """Other sessions, as few as possible, that see what one releases and what is kept for them."""

    def __init__(self, others: Sequence[Tree]) -> None:
        self._others = others
        self._chosen: list[Tree] = []

    def of(self, sees: Callable[[Tree], bool]) -> None:
        """Choose one that sees something, unless one of those chosen does, or nobody."""
        if not any(sees(tree) for tree in self._chosen):
            self._chosen += next(([tree] for tree in self._others if sees(tree)), [])

    def of_message(self, released_by: Tree, place: Place) -> None:
        """The same for a message, and for the content that the session sees in it."""
        shown = released_by.replaced.get(place)
        self.of(lambda tree: tree.sees(place))
        self.of(lambda tree: tree.sees(place) and tree.replaced.get(place) == shown)

    def of_overlay(self, number: int) -> None:
        """The same for an overlay, and for its text."""
        self.of(lambda tree: any(overlay.number == number for overlay in tree.overlays))
        self.of(lambda tree: tree.shows_summary(number))

    def of_reach(self, segment: int, position: int) -> None:
        self.of(lambda tree: tree.reach(segment) >= position)

    def of_inherited(self, tree: int, revision: int) -> None:
        self.of(lambda view: view.inherits(tree, revision))

    @property
    def guards(self) -> Guards:
        return tuple((tree.session.number, tree.session.revision) for tree in self._chosen)


def release_guards(
    tree: Tree, others: Sequence[Tree], places: Iterable[Place], overlays: Iterable[OverlayRow]
) -> Guards:
    """The session, and witnesses of the messages and overlays that it releases and others keep."""
    witnesses = Witnesses(others)
    for place in places:
        witnesses.of_message(tree, place)
    for overlay in overlays:
        witnesses.of_overlay(overlay.number)
    return (*guard(tree.session), *witnesses.guards)
