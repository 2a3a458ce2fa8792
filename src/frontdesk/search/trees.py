"""Loads the trees of sessions, and keeps them from one search to the next: a tree has a row for each run of deleted
messages, and to load thousands of rows takes longer than to look up the words in the index."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec.structs import replace

from frontdesk.config.runtime import Runtime
from frontdesk.store import TreeRows, ViewRow
from frontdesk.tree.tree import Tree

_MAX_ROWS = 50_000
"""how many rows the kept trees may have; the last one is kept whatever its size"""


async def load_trees(runtime: Runtime, ids: Sequence[str]) -> list[Tree]:
    """The trees of those of the sessions that exist, as they are now, without the contents of replaced messages."""
    return await runtime.shared(_TreeCache).load(runtime, ids)


class _TreeCache:
    """What a session sees changes only with its revision, except that appends extend the segment of its head. So a kept
    tree is used again as long as the session's row has the same revision. The last used are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trees: dict[str, Tree] = {}
        self._rows = 0

    async def load(self, runtime: Runtime, ids: Sequence[str]) -> list[Tree]:
        store, namespace = runtime.store, runtime.namespace
        kept = {tree.session.number: tree for one in ids if (tree := self._trees.get(one)) is not None}
        rows = await store.sessions(namespace, list(kept)) if kept else []
        found = {row.id: kept[row.number].at(row) for row in rows if row.revision == kept[row.number].session.revision}
        changed = [one for one in ids if one not in found]
        shapes = await store.trees(namespace, changed) if changed else []
        found |= {shape.session.id: Tree(_without_contents(shape)) for shape in shapes}
        with self._lock:
            for one in ids:
                self._put(one, found.get(one))
        return [found[one] for one in ids if one in found]

    def _put(self, session_id: str, tree: Tree | None) -> None:
        if (old := self._trees.pop(session_id, None)) is not None:
            self._rows -= _rows_of(old)
        if tree is not None:
            self._trees[session_id] = tree
            self._rows += _rows_of(tree)
        while self._rows > _MAX_ROWS and len(self._trees) > 1:
            self._put(next(iter(self._trees)), None)


def _without_contents(rows: TreeRows) -> TreeRows:
    """The rows without what is not needed to find texts, and must not stay in memory."""
    edits = tuple(edit if edit.message is None else replace(edit, message=None) for edit in rows.edits)
    return replace(rows, view=ViewRow(), edits=edits)


def _rows_of(tree: Tree) -> int:
    rows = tree.rows
    return 1 + len(rows.segments) + len(rows.overlays) + len(rows.edits) + len(rows.lineage)
