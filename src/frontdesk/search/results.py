"""The public records of search: hits, pages of them, and information about the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, overload

from frontdesk.keys import SessionKey
from frontdesk.messages import Message
from frontdesk.record import Record


@dataclass(frozen=True, slots=True)
class SearchHit(Record):
    """A match. `snippet` is the part of its text around the matching words, which are marked `**like this**`.

    `kind` is "message", "summary" or "session". For the summary of a compaction, `message_id` is the id of the
    synthetic message. For the name and summary of a session, it is empty. `position` counts the messages before the hit
    on the path to the head. It is None on another branch, and then `branch` is the last message of that branch.
    `visible` says whether the history at the head shows the message: if it was compacted or is on another branch, it
    does not. `context_before` and `context_after` are the messages around it, if they were requested."""

    session_id: str
    message_id: str
    role: str
    score: float
    snippet: str
    created_at: datetime
    kind: Literal["message", "summary", "session"] = "message"
    session_name: str = ""
    position: int | None = None
    visible: bool = True
    key: SessionKey | None = None
    branch: str | None = None
    context_before: tuple[Message, ...] = ()
    context_after: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResults(Record, Sequence[SearchHit]):
    """One page of hits, best first. `total` counts all matches. Pass `next_cursor` as `cursor` for the next page; it is
    None on the last one.

    For very common words, only the latest 1,000 texts are considered, and `total` counts only those."""

    hits: tuple[SearchHit, ...]
    total: int
    next_cursor: str | None

    @overload
    def __getitem__(self, index: int) -> SearchHit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SearchHit, ...]: ...

    def __getitem__(self, index: int | slice) -> SearchHit | tuple[SearchHit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def by_session(self) -> dict[str, tuple[SearchHit, ...]]:
        """The hits of each session, in the order in which the sessions first appear."""
        found: dict[str, list[SearchHit]] = {}
        for hit in self.hits:
            found.setdefault(hit.session_id, []).append(hit)
        return {session_id: tuple(hits) for session_id, hits in found.items()}


@dataclass(frozen=True, slots=True)
class SearchInfo(Record):
    """How a namespace is searched. `mode` is "lexical" (by words) or "hybrid" (by words and by meaning).

    The index contains `texts` texts and everything up to the moment `indexed_up_to` (None: nothing yet). `pending`
    changes are not in it yet; a search still takes them into account. It is `building` while it is built, or built
    again for another language or version.

    With embeddings, `vectors` texts have a vector of `dimensions` numbers so far, by `embedding_model` if that is
    known; the others are found by words. While embeddings fail, `embedding_error` says why, and `mode` is "lexical"."""

    mode: Literal["lexical", "hybrid"]
    language: str
    reasoning: bool
    texts: int
    pending: int
    indexed_up_to: datetime | None
    building: bool
    made_with: str
    dimensions: int | None = None
    embedding_model: str | None = None
    vectors: int = 0
    embedding_error: str | None = None
