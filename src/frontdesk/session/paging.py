"""Pages of what a session contains: of a path as it was written, and of the model's view with the reason for what is
missing."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.checks import check_count
from frontdesk.context.frozen_prompt import is_change_note
from frontdesk.errors import InvalidInputError, MessageNotFoundError
from frontdesk.history.paths import Cover, Path, first_place, load_path, page_start, places_of
from frontdesk.history.trees import measure, measure_each
from frontdesk.history.views import read_all, retry_if_moved
from frontdesk.messages import SUMMARY_PREFIX, Message, check_id
from frontdesk.session.handle import Handle
from frontdesk.session.records import Absence, ItemKind, PathEntry, PathPage, ViewItem, ViewPage
from frontdesk.session.windows import WindowReader
from frontdesk.store import Item, OverlayItem, Place
from frontdesk.tree.items import count, drop_first, first_items, last_items
from frontdesk.tree.tree import Tree

MAX_PAGE = 1000


class Pager:
    """Reads pages for a handle. A session that was never written to has an empty path."""

    def __init__(self, handle: Handle, window: WindowReader) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._window = window

    async def path_page(self, leaf: str | None, position: int | None, around: str | None, limit: int) -> PathPage:
        """See `Session.page`."""
        check_page(limit, position)
        if position is not None and around is not None:
            raise InvalidInputError("pass `position` or `around`, not both")

        async def read() -> PathPage:
            path = await self._path(leaf, around)
            if path is None:
                return PathPage(None, 0, 0, ())
            centre = None if around is None else path.position_of_id(around)
            return await self._page(path, page_start(path.total, limit, position, centre), limit)

        return await retry_if_moved(self._handle.runtime, read, self._handle.name)

    async def _path(self, leaf: str | None, find: str | None = None) -> Path | None:
        """The path to a leaf; None without a session. Raises `MessageNotFoundError`."""
        session_id = await self._handle.readable_id()
        wanted = [] if find is None else [find]
        path = None if session_id is None else await load_path(self._runtime, session_id, leaf, find=wanted)
        message_id = leaf or find
        if path is None and message_id is not None:
            raise MessageNotFoundError(check_id(message_id, "message id"), self._handle.name)
        return path

    async def _page(self, path: Path, first: int, limit: int) -> PathPage:
        items = path.part(first, limit)
        siblings = _siblings(path.tree, list(places_of(items)))
        others = [place for places in siblings.values() for place in places]
        ends = [] if path.leaf is None else [path.leaf]
        one_by_one = [item for place in (*ends, *others) for item in path.tree.between(place, place)]
        extra = await read_all(self._runtime, one_by_one)
        by_place = dict(zip((*ends, *others), extra, strict=True))
        covers = path.covers()
        entries = [
            PathEntry(position, message, _covering(covers, position), _oldest_first(siblings.get(place, ()), by_place))
            for position, (place, message) in enumerate(
                zip(places_of(items), await read_all(self._runtime, items), strict=True), first
            )
        ]
        return PathPage(extra[0].id if ends else None, first, path.total, tuple(entries))

    async def view_page(self, leaf: str | None, position: int | None, limit: int, max_tokens: int | None) -> ViewPage:
        """See `Session.view`."""
        check_page(limit, position)
        check_count(max_tokens, "max_tokens")

        async def read() -> ViewPage:
            path = await self._path(leaf)
            if path is None:
                return ViewPage(None, 0, 0, 0, (), ())
            ends = [] if path.leaf is None else await read_all(self._runtime, path.tree.between(path.leaf, path.leaf))
            leaf_id = ends[0].id if ends else None
            missing = [*await self._covered(path), *await self._on_branches(path)]
            if max_tokens is None:
                return await self._whole_view(path, leaf_id, position, limit, missing)
            return await self._window_of(path, leaf_id, position, limit, max_tokens, missing)

        return await retry_if_moved(self._handle.runtime, read, self._handle.name)

    async def _whole_view(
        self, path: Path, leaf_id: str | None, position: int | None, limit: int, missing: list[Absence]
    ) -> ViewPage:
        items = path.view_items()
        first = page_start(count(items), limit, position, None)
        part = first_items(drop_first(items, first), limit)
        tokens = await measure(self._runtime, path.tree, items)
        shown = await self._view_items(path, part)
        return ViewPage(leaf_id, first, count(items), tokens, tuple(shown), tuple(missing))

    async def _window_of(
        self,
        path: Path,
        leaf_id: str | None,
        position: int | None,
        limit: int,
        max_tokens: int,
        missing: list[Absence],
    ) -> ViewPage:
        """The view as it is shortened to fit. What is kept of it are leading system messages, summaries, and its end,
        so that the originals are among the first and the last items."""
        kept = await self._window.read(leaf_id, None, max_tokens, shortens=True)
        items = path.view_items()
        lead = next((index for index, each in enumerate(kept) if each.role != "system" or each.is_summary), len(kept))
        summaries = [item for item in items if isinstance(item, OverlayItem)]
        candidates = [*first_items(items, lead), *summaries, *last_items(items, len(kept) - lead)]
        originals = {item.message.id: item for item in await self._view_items(path, candidates)}
        shown = [_as_kept(originals[message.id], message) for message in kept if message.id in originals]
        dropped = count(items) - len(shown)
        if dropped:
            tokens = await measure(self._runtime, path.tree, items) - sum(item.original_tokens for item in shown)
            missing = [*missing, Absence("window", dropped, tokens)]
        first = page_start(len(shown), limit, position, None)
        total = sum(item.tokens for item in shown)
        return ViewPage(leaf_id, first, len(shown), total, tuple(shown[first : first + limit]), tuple(missing))

    async def _view_items(self, path: Path, items: Sequence[Item]) -> list[ViewItem]:
        """Items of a view with what each of them is."""
        messages = iter(await read_all(self._runtime, items))
        covers = {cover.overlay.number: cover for cover in path.covers()}
        shown: list[ViewItem] = []
        for item in items:
            if isinstance(item, OverlayItem):
                shown.append(_summary_item(next(messages), covers.get(item.number)))
                continue
            start = path.position(first_place(item))
            for offset in range(count((item,))):
                message = next(messages)
                kind: ItemKind = "note" if is_change_note(message) else "message"
                position = None if start is None else start + offset
                shown.append(ViewItem(kind, position, message, message.tokens, message.tokens))
        return shown

    async def _covered(self, path: Path) -> list[Absence]:
        """What compactions cover on a path."""
        covers = path.covers()
        tokens = await measure_each(self._runtime, path.tree, [cover.items for cover in covers])
        return [
            Absence(cover.overlay.kind, count(cover.items), size, cover.overlay.id, cover.first, cover.last)
            for cover, size in zip(covers, tokens, strict=True)
        ]

    async def _on_branches(self, path: Path) -> list[Absence]:
        """What is on other branches than a path."""
        tree = path.tree
        everything = [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]
        others = count(everything) - path.total
        if not others:
            return []
        whole, on_path = await measure_each(self._runtime, tree, [everything, path.items])
        return [Absence("branch", others, whole - on_path)]


def check_page(limit: int, position: int | None) -> None:
    """Raises `InvalidInputError` for what is not the size and the start of a page."""
    check_count(limit, "limit", most=MAX_PAGE)
    if limit is None:
        raise InvalidInputError("limit must be a whole number, not None")
    if position is not None and (type(position) is not int or position < 0):
        raise InvalidInputError(f"position must be a whole number, at least 0, not {position!r}")


def _siblings(tree: Tree, places: Sequence[Place]) -> dict[Place, list[Place]]:
    """The places of all messages that follow the same one, for each of these places that is not the only one."""
    branched = {tree.at_or_before(segment.parent) for segment in tree.visible_segments()}
    found: dict[Place, list[Place]] = {}
    for place in places:
        parent = tree.before(place)
        if parent in branched and len(children := tree.children(parent)) > 1:
            found[place] = children
    return found


def _oldest_first(places: Sequence[Place], messages: dict[Place, Message]) -> tuple[str, ...]:
    found = sorted((messages[place] for place in places), key=lambda message: message.stored.created_at)
    return tuple(message.id for message in found)


def _covering(covers: Sequence[Cover], position: int) -> str | None:
    return next((cover.overlay.id for cover in covers if cover.first <= position <= cover.last), None)


def _summary_item(message: Message, cover: Cover | None) -> ViewItem:
    compaction_id = message.id.removeprefix(SUMMARY_PREFIX)
    covered, first = (0, None) if cover is None else (count(cover.items), cover.first)
    return ViewItem("summary", first, message, message.tokens, message.tokens, compaction_id, covered)


def _as_kept(item: ViewItem, kept: Message) -> ViewItem:
    """An item with the message that is kept of it, shortened or not."""
    return ViewItem(item.kind, item.position, kept, kept.tokens, item.original_tokens, item.compaction_id, item.covered)
