"""What a store does for search: it keeps the terms of texts, and returns the texts that may match a query.

The code above a store decides what the terms are, how they are weighted, and in which order hits are returned. A store
knows terms, their offsets in a text, and *facets*: terms that describe a text (its role, its day) instead of being
contained in it. Namespaces are separate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from frontdesk.store.changes import Position
from frontdesk.store.rows import Place, SegmentRow, SessionRow, tags_of

TextKind = Literal["message", "edit", "overlay", "session"]
TEXT_KINDS: tuple[TextKind, ...] = ("session", "overlay", "edit", "message")
"""the kinds of texts. A store that keeps kinds as numbers uses the index of a kind in this tuple, for the index and for
vectors. In descending order, messages come first."""
Phrase = tuple[tuple[str, ...], ...]
"""stretches of terms; a text contains the phrase if it contains the terms of each stretch without a gap"""
LONGEST_STRETCH = 32
"""the longest stretch, in terms, that every store must be able to look for as a whole"""


class Address(NamedTuple):
    """Identifies a text: a message by its segment and position; an edit that replaces a message, the summary of an
    overlay, or the name and summary of a session by its number."""

    kind: TextKind
    number: int
    position: int = 0


Range = tuple[Address, Address]
"""from one address to another of the same kind and number, both included"""


class IndexText(msgspec.Struct, frozen=True, kw_only=True):
    """A text as terms. `content` is what it was made from: the raw message, or the name and the summary of a session.
    The text is indexed only if that has not changed."""

    address: Address
    at: int
    """when it was said, in microseconds since 1970"""
    terms: Sequence[str]
    facets: Sequence[str]
    content: tuple[str | None, ...] = ()


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """How far the index of a namespace is. It contains everything that was logged up to `position`. Of the texts from
    before the log, it contains the families up to `cursor` (None: all of them).

    `usable` is True if the texts of the other families are still in it as an earlier build indexed them."""

    made_with: str
    position: Position
    cursor: int | None = None
    usable: bool = True


class IndexRow(NamedTuple):
    """The state of an index, and how many texts and terms it contains."""

    state: IndexState
    texts: int
    length: int


class IndexBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to add to the index, and its new state. Nothing is written unless its current state is `replaces`."""

    namespace: str
    replaces: IndexState | None
    state: IndexState
    texts: Sequence[IndexText] = ()


class SessionSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that have these parts of a key, and all of these tags."""

    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, str]:
        """The required parts of a key, by column."""
        every = {"agent": self.agent, "channel": self.channel, "peer": self.peer, "thread": self.thread}
        return {column: value for column, value in every.items() if value is not None}

    def includes(self, row: SessionRow) -> bool:
        if any(getattr(row, column) != value for column, value in self.parts.items()):
            return False
        return not self.tags or set(self.tags) <= set(tags_of(row))


class IndexQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which texts match: those with any term of `seek` (if given), with every phrase, without any excluded phrase, and
    with at least one of each tuple of `facets`. A term that ends in "*" means all terms that start with it.

    If `ranges` are given, which must not overlap, only texts in them match. If `sessions` are selected, only texts of
    their families match. If more than `limit` texts match, the latest are returned, judging by numbers and positions:
    each store has one order of all texts. With `after`, only texts after this one in that order are returned."""

    namespace: str
    seek: tuple[str, ...] = ()
    count: tuple[str, ...] = ()
    """further terms whose offsets in these texts are wanted"""
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    facets: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[Range, ...] | None = None
    sessions: SessionSelection | None = None
    after: Address | None = None
    limit: int


class IndexMatch(NamedTuple):
    """A text that matches, with the offsets of each requested term in it (`places`), and its `length` in terms. `place`
    is the place of its message; summaries and sessions have none."""

    address: Address
    place: Place | None
    family: int
    at: int
    length: int
    places: Mapping[str, Sequence[int]]

    def time_in(self, row: SessionRow) -> int:
        """When it was said. The time of the text of a session is that of the session's last activity."""
        return row.last_active_at if self.address.kind == "session" else self.at


class IndexStore(Protocol):
    """The search index, and the bulk reads that a search needs."""

    async def index_state(self, namespace: str) -> IndexRow | None:
        """The state of the index; None before its first batch."""

    async def write_index(self, batch: IndexBatch) -> bool:
        """Index a batch in one transaction. If the current state is not the one that it `replaces`, returns False and
        changes nothing.

        A text whose message, edit, overlay or session was deleted or changed is left out. The texts that a plan removes
        or replaces (`tree.texts.removed_texts`) are removed from the index in the plan's transaction."""

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        """How many texts contain each term. A term that ends in "*" means all terms that start with it. Large numbers
        may be estimates."""

    async def terms(self, namespace: str, prefix: str, limit: int) -> list[str]:
        """At most `limit` terms of the index that start with a prefix. Some of very many may be left out."""

    async def matches(self, query: IndexQuery) -> list[IndexMatch]: ...

    async def unindexed(self, namespace: str, ranges: Sequence[Range]) -> list[Address]:
        """The messages in these ranges of messages that exist and are not in the index."""

    async def segments(self, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
        """The segments with these numbers. Those that do not exist are left out."""

    async def owner_trees(self, namespace: str, addresses: Sequence[Address]) -> dict[Address, int]:
        """The trees that these edits and overlays belong to. Those that do not exist are left out."""

    async def sessions(self, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        """The sessions with these numbers. Those that do not exist are left out."""

    async def relatives(
        self,
        namespace: str,
        families: Sequence[int],
        *,
        trees: Sequence[int] | None = None,
        latest: int | None = None,
    ) -> list[SessionRow]:
        """The existing sessions of these families. With `trees`, only those that own one of these trees. With `latest`
        (never together with `trees`), only that number of each family: those with the latest activity, and of equals
        those with the highest numbers."""

    async def families(self, namespace: str, after: int, limit: int) -> list[int]:
        """The families of the namespace with higher numbers than `after`, lowest first."""
