"""What a search returns, and what is known about the index: the public values of search."""

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
    """Something that matched; `snippet` is the part of its text around the matches, which are marked `**like this**`.

    `kind` is "message"; or "summary" for that of a compaction, with the id of its synthetic message; or "session" for
    a session's own name and summary, without a message id. `position` counts the messages before it on the path to
    the head. It is None off that path; then `branch` is the last message of the branch that it is on. `visible` says
    whether the history at the head shows it: what was compacted away, or is on another branch, is not shown.
    `context_before` and `context_after` are its neighbours, if they were requested."""

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
    """Hits, best first; `total` counts all that matched; `next_cursor` gets the next ones and is None at the end.

    Of very common words only the latest 1,000 texts are considered, and `total` counts among these."""

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
