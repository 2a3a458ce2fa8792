"""A conversation in plain Python, as simple as possible: `random_histories` compares every store with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["summary", "truncate", "reset"]


@dataclass
class ModelMessage:
    """A message that contains the id of its parent."""

    id: str
    text: str
    tokens: int
    parent: str | None


@dataclass
class ModelOverlay:
    """An overlay that lists every message it covers."""

    id: str
    kind: Kind
    summary: str | None
    tokens: int
    covered: list[str]
    stale: bool = False

    def cut(self) -> None:
        """A message of it was deleted: a summary is hidden, and its text is gone."""
        if self.kind == "summary":
            self.kind, self.summary, self.tokens, self.stale = "truncate", None, 0, True


@dataclass
class Shown:
    """One item of a path or a view: a message, or the summary that replaces some."""

    id: str
    text: str
    parent: str | None
    tokens: int


@dataclass
class Conversation:
    """One session: its messages by id, its head, and its overlays from the oldest to the newest."""

    notes: dict[str, ModelMessage] = field(default_factory=dict)
    head: str | None = None
    covers: list[ModelOverlay] = field(default_factory=list)

    def append(self, batch: Iterable[tuple[str, str, int]]) -> list[tuple[bool, str | None]]:
        """(inserted, parent) of each message; a duplicate is skipped, and the others continue after the head."""
        done = []
        for id, text, tokens in batch:
            is_new = id not in self.notes
            if is_new:
                self.notes[id] = ModelMessage(id, text, tokens, self.head)
                self.head = id
            done.append((is_new, self.notes[id].parent))
        return done

    def append_path(
        self, batch: Sequence[tuple[str, str, int]], parent: str | None
    ) -> list[tuple[bool, str | None]] | None:
        """The same for a path after a parent; None if a duplicate does not follow the one before it."""
        ids = [id for id, _, _ in batch]
        is_retry = len(ids) == 1 and ids[0] in self.notes
        if len(set(ids)) < len(ids):
            return None
        for id, before in zip(ids, [parent, *ids], strict=False):
            if id in self.notes and self.notes[id].parent != before and not is_retry:
                return None
        done = []
        for id, text, tokens in batch:
            is_new = id not in self.notes
            if is_new:
                self.notes[id] = ModelMessage(id, text, tokens, parent)
                self.head = id
            done.append((is_new, self.notes[id].parent))
            parent = id
        return done

    def replace(self, id: str, text: str, tokens: int) -> None:
        self.notes[id].text, self.notes[id].tokens = text, tokens
        for cover in self.covers:
            cover.stale = cover.stale or (cover.kind == "summary" and id in cover.covered)

    def delete(self, ids: Iterable[str]) -> None:
        for id in ids:
            gone = self.notes.pop(id)
            for note in self.notes.values():
                if note.parent == id:
                    note.parent = gone.parent
            if self.head == id:
                self.head = gone.parent
            for cover in self.covers:
                if id in cover.covered:
                    cover.covered.remove(id)
                    cover.cut()
        self.covers = [cover for cover in self.covers if cover.covered]

    def clear(self) -> None:
        self.notes, self.head, self.covers = {}, None, []

    def fork(self, at: str | None) -> Conversation:
        path = self.path(at)
        notes = {id: deepcopy(self.notes[id]) for id in path}
        covers = [deepcopy(cover) for cover in self.covers if set(cover.covered) <= set(path)]
        return Conversation(notes, at, covers)

    def cover(self, id: str, kind: Kind, summary: str | None, tokens: int, start: str, end: str) -> None:
        path = self.path(end)
        covered = path[path.index(start) :]
        is_waiting = [cover.stale and cover.kind == "truncate" for cover in self.covers]
        self.covers = [
            cover
            for cover, waits in zip(self.covers, is_waiting, strict=True)
            if not (waits and set(cover.covered) <= set(covered))
        ]
        self.covers.append(ModelOverlay(id, kind, summary, tokens, covered))

    def uncover(self, id: str) -> None:
        self.covers = [cover for cover in self.covers if cover.id != id]

    # what a reader sees

    def path(self, leaf: str | None) -> list[str]:
        path = []
        while leaf is not None:
            path.append(leaf)
            leaf = self.notes[leaf].parent
        return path[::-1]

    def children(self, parent: str | None) -> set[str]:
        return {note.id for note in self.notes.values() if note.parent == parent}

    def leaves(self) -> set[str]:
        return {id for id in self.notes if not self.children(id)}

    def transcript(self, leaf: str | None) -> list[Shown]:
        return [self._shown(id) for id in self.path(leaf)]

    def view(self, leaf: str | None) -> list[Shown]:
        path = self.path(leaf)
        taken = self._taken(path)
        shown = []
        for id in path:
            cover = next((cover for cover in taken if id in cover.covered), None)
            if cover is None:
                shown.append(self._shown(id))
            elif id == cover.covered[0] and cover.kind == "summary":
                shown.append(Shown(cover.id, cover.summary or "", self.notes[id].parent, cover.tokens))
        return shown

    def on_the_way(self, leaf: str | None) -> tuple[int, int]:
        """The number of messages and overlays on the path to a leaf."""
        path = self.path(leaf)
        return len(path), sum(1 for cover in self.covers if set(cover.covered) <= set(path))

    def _taken(self, path: Sequence[str]) -> list[ModelOverlay]:
        """The overlays that apply to a path: newest first, none that overlaps a newer one."""
        taken: list[ModelOverlay] = []
        for cover in reversed(self.covers):
            fits = set(cover.covered) <= set(path)
            if fits and not any(set(cover.covered) & set(other.covered) for other in taken):
                taken.append(cover)
        return taken

    def _shown(self, id: str) -> Shown:
        note = self.notes[id]
        return Shown(id, note.text, note.parent, note.tokens)

    def texts(self) -> set[str]:
        """Every id and text in the session."""
        messages = {text for note in self.notes.values() for text in (note.id, note.text)}
        return messages | {text for cover in self.covers for text in (cover.id, cover.summary) if text}
