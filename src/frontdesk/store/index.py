"""What a store does for search: it keeps the terms of texts, and returns the texts that may match a query.

Terms, what they are worth and in which order hits come is decided above. A store knows terms, their places in a text,
and *facets*: words that say of a text what it is (its role, its day), not what it holds. Namespaces are kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from frontdesk.store.rows import Place, SegmentRow, SessionRow

TextKind = Literal["message", "edit", "overlay", "session"]
TEXT_KINDS: tuple[TextKind, ...] = ("session", "overlay", "edit", "message")
"""the kinds of texts; a store that keeps them as numbers takes a kind's index here, in the index and in the vectors. In
descending order messages come first."""
Phrase = tuple[tuple[str, ...], ...]
"""stretches of terms; a text has the phrase if it has the terms of each stretch without a gap"""
LONGEST_STRETCH = 32
"""terms of a stretch that every store must be able to look for as a whole"""


class Address(NamedTuple):
    """Names a text: a message (segment, position), a replacing edit, the summary of an overlay, or a session's name and
    summary, these by their number."""

    kind: TextKind
    number: int
    position: int = 0


Range = tuple[Address, Address]
"""from one address to another of the same kind and number, both included"""


class IndexText(msgspec.Struct, frozen=True, kw_only=True):
    """A text as terms. It is indexed only if what it was made from is still as it was read: `content` is the raw
    message, or the name and the summary of a session."""

    address: Address
    at: int
    """when it was said, in microseconds since 1970"""
    terms: Sequence[str]
    facets: Sequence[str]
    content: tuple[str | None, ...] = ()


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """How far the index of a namespace is. It holds what was logged up to `position`, and of what was there before, the
    families up to `cursor` (None: all of them).

    `usable` says that until then every text is still there as an earlier build indexed it."""

    made_with: str
    position: tuple[int, int]
    cursor: int | None = None
    usable: bool = True


class IndexRow(NamedTuple):
    """The state of an index, how many texts it holds, and of how many terms."""

    state: IndexState
    texts: int
    length: int


class IndexBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to be put into the index, and its state then; nothing happens unless its state is still `replaces`."""

    namespace: str
    replaces: IndexState | None
    state: IndexState
    texts: Sequence[IndexText] = ()


class IndexQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which texts match: those with any of `seek` (if given), every phrase, nothing excluded, and at least one of each
    tuple of `facets`. A term that ends in "*" means all terms that begin so.

    `spans` (segment, first, last), if given, name the only messages that match, `addresses` (not together with `spans`)
    the only texts, `families` those that a text may belong to. Of more than `limit` texts the latest are returned, as
    far as numbers and positions tell."""

    namespace: str
    seek: tuple[str, ...] = ()
    count: tuple[str, ...] = ()
    """more terms whose places in these texts are wanted"""
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    facets: tuple[tuple[str, ...], ...] = ()
    families: tuple[int, ...] | None = None
    spans: tuple[tuple[int, int, int], ...] | None = None
    addresses: tuple[Address, ...] | None = None
    limit: int


class IndexMatch(NamedTuple):
    """A text that matches: the `places` of each asked term in it, and its `length` in terms. `place` is that of its
    message; summaries and sessions have none."""

    address: Address
    place: Place | None
    family: int
    at: int
    length: int
    places: Mapping[str, Sequence[int]]


class IndexStore(Protocol):
    """The search index, and what searching reads in bulk."""

    async def index_state(self, namespace: str) -> IndexRow | None:
        """How far the index is; None before its first batch."""

    async def write_index(self, batch: IndexBatch) -> bool:
        """Index a batch in one transaction; False, and nothing changed, if the state is not what it `replaces`.

        A text whose message, edit, overlay or session was deleted or changed is left out. The texts that a plan removes
        or replaces (`tree.texts.removed_texts`) leave the index in the plan's transaction."""

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        """How many texts have each term (one that ends in "*" means all that begin so); large figures may be
        estimates."""

    async def matches(self, query: IndexQuery) -> list[IndexMatch]: ...

    async def segments(self, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
        """These segments, of those that exist."""

    async def sessions(self, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        """The sessions with these numbers, of those that exist."""

    async def relatives(self, namespace: str, families: Sequence[int]) -> list[SessionRow]:
        """The living sessions of these families."""

    async def families(self, namespace: str, after: int, limit: int) -> list[int]:
        """The families of the namespace with higher numbers than `after`, lowest first."""
