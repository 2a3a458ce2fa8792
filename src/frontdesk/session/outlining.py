"""The outline of a session: its tree without its messages, its compactions, and the sessions forked from it."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.history.paths import Cover, Path, cover_of
from frontdesk.history.trees import measure_each
from frontdesk.history.views import read_all, retry_if_moved
from frontdesk.messages import Message
from frontdesk.moments import to_datetime
from frontdesk.session.handle import Handle
from frontdesk.session.records import Outline, OutlineCompaction, OutlineFork, OutlineRun
from frontdesk.store import Item, Place, SessionQuery, SessionRow
from frontdesk.tree.items import count, position_of
from frontdesk.tree.outline import TreeRun, runs_of
from frontdesk.tree.tree import Tree

_FORKS = 100
_TEXT = 120
"""characters"""


class Outliner:
    """Makes the outline for a handle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._runtime: Runtime = handle.runtime

    async def outline(self) -> Outline:
        """See `Session.outline`. Raises `SessionNotFoundError`."""

        async def read() -> Outline:
            await self._handle.row()
            tree = await self._handle.tree()
            return Outline(None, None, None, (), (), ()) if tree is None else await self._outline(tree)

        return await retry_if_moved(self._handle.runtime, read, self._handle.name)

    async def _outline(self, tree: Tree) -> Outline:
        found = runs_of(tree)
        items = [tree.between(run.first, run.last) for run in found]
        firsts = _first_positions(found, items)
        compactions = _compactions(tree, found)
        forks = await self._forks(tree.session)
        shared = [tree.at_or_before(fork.base) if _reaches(tree, fork.base) else None for fork in forks]
        wanted = [place for run in found for place in (run.first, run.last)]
        wanted += [place for place in (tree.session.head, _origin(tree), *shared) if place is not None]
        messages = await self._messages(tree, wanted)
        tokens = await measure_each(self._runtime, tree, [*items, *(cover.items for cover, _ in compactions)])
        path = {place.segment: place.position for place in tree.path(tree.session.head)}
        parents = {run.parent for run in found}
        origin = _origin(tree)
        return Outline(
            _id(messages, tree.session.head),
            tree.session.parent_session_id,
            _id(messages, origin),
            tuple(
                OutlineRun(
                    run.parent,
                    messages[run.first].id,
                    messages[run.last].id,
                    firsts[index],
                    count(items[index]),
                    tokens[index],
                    messages[run.first].created_at,
                    messages[run.last].created_at,
                    messages[run.first].role,
                    messages[run.first].text[:_TEXT],
                    run.first.position <= path.get(run.first.segment, -1),
                    index not in parents,
                )
                for index, run in enumerate(found)
            ),
            _described(tree, compactions, tokens[len(found) :]),
            tuple(_fork(fork, place, messages, items, firsts) for fork, place in zip(forks, shared, strict=True)),
        )

    async def _messages(self, tree: Tree, places: Sequence[Place]) -> dict[Place, Message]:
        distinct = list(dict.fromkeys(places))
        items = [item for place in distinct for item in tree.between(place, place)]
        return dict(zip(distinct, await read_all(self._runtime, items), strict=True))

    async def _forks(self, session: SessionRow) -> list[SessionRow]:
        query = SessionQuery(namespace=session.namespace, parent=session.id, limit=_FORKS, order="created")
        rows = await self._runtime.store.page(query)
        return [row for row in rows if row.family == session.family]


def _first_positions(runs: Sequence[TreeRun], items: Sequence[Sequence[Item]]) -> list[int]:
    """How many messages come before each run on its path."""
    firsts: list[int] = []
    for run in runs:
        firsts.append(0 if run.parent is None else firsts[run.parent] + count(items[run.parent]))
    return firsts


def _compactions(tree: Tree, runs: Sequence[TreeRun]) -> list[tuple[Cover, int]]:
    """All compactions, oldest first, each with the run that it ends in."""
    found = []
    for overlay in reversed(tree.overlays):
        end = tree.at_or_before(overlay.end)
        cover = None if end is None else cover_of(Path(tree, end), overlay)
        run = next((index for index, run in enumerate(runs) if end is not None and _holds(tree, run, end)), None)
        if cover is not None and run is not None:
            found.append((cover, run))
    return found


def _described(
    tree: Tree, compactions: Sequence[tuple[Cover, int]], tokens: Sequence[int]
) -> tuple[OutlineCompaction, ...]:
    applied = {overlay.number for _, _, overlay in tree.outermost(tree.path(tree.session.head))}
    described = []
    for index, (cover, run) in enumerate(compactions):
        overlay = cover.overlay
        inside = [
            other.overlay.id
            for other, _ in compactions[:index]
            if cover.first <= other.first
            and other.last <= cover.last
            and tree.precedes(overlay.start, other.overlay.end)
        ]
        described.append(
            OutlineCompaction(
                overlay.id,
                overlay.kind,
                run,
                cover.first,
                cover.last,
                count(cover.items),
                tokens[index],
                to_datetime(overlay.created_at),
                tuple(inside),
                overlay.number in applied,
                overlay.stale,
            )
        )
    return tuple(described)


def _fork(
    fork: SessionRow,
    place: Place | None,
    messages: dict[Place, Message],
    items: Sequence[Sequence[Item]],
    firsts: Sequence[int],
) -> OutlineFork:
    run, position = None, None
    if place is not None:
        for index, span in enumerate(items):
            offset = position_of(span, place)
            if offset is not None:
                run, position = index, firsts[index] + offset
    return OutlineFork(fork.id, fork.name, _id(messages, place), run, position, to_datetime(fork.created_at))


def _holds(tree: Tree, run: TreeRun, place: Place) -> bool:
    """Whether a place is in a run: after its first message on the way to its last."""
    return tree.precedes(run.first, place) and tree.precedes(place, run.last)


def _reaches(tree: Tree, place: Place | None) -> bool:
    return place is not None and tree.reaches(place)


def _origin(tree: Tree) -> Place | None:
    """The last message that a fork took over."""
    return tree.at_or_before(tree.session.base)


def _id(messages: dict[Place, Message], place: Place | None) -> str | None:
    return None if place is None else messages[place].id
