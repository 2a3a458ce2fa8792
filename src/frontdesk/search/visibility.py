"""Which sessions a search may show, and which of them shows a text.

A rule says which sessions may be shown, to a model or to a user. Forks share messages, but each text is returned once:
for the session that owns it if that session sees it, otherwise for the most recently active session that does. A
session that may not be shown does not count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from frontdesk.calls import call_each
from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SessionFilter
from frontdesk.history import trees
from frontdesk.history.live import live_states
from frontdesk.models.windows import session_window
from frontdesk.records import SessionInfo
from frontdesk.search.request import Request
from frontdesk.search.trees import load_trees
from frontdesk.store import Address, IndexMatch, SessionRow, SessionSelection, TextKind
from frontdesk.tree.tree import Tree

MAX_ASKED = 10_000
"""how many sessions a function is asked about for one answer"""
_BATCH = 500
_FIRST_VIEWERS = 2
"""how many sessions of a family are looked at first"""
_MORE_VIEWERS = 8
"""how many times as many are looked at next"""


# which sessions may be shown


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The sessions that may be shown: those that meet all of these conditions. None means that there is no such
    condition."""

    selection: SessionSelection | None = None
    numbers: frozenset[int] | None = None
    ids: frozenset[str] | None = None
    function: SessionFilter | None = None

    @property
    def is_limited(self) -> bool:
        return self != EVERYTHING

    def accepts(self, row: SessionRow) -> bool:
        """Whether a session meets all conditions but the function."""
        if self.numbers is not None and row.number not in self.numbers:
            return False
        if self.ids is not None and row.id not in self.ids:
            return False
        return self.selection is None or self.selection.includes(row)


EVERYTHING = AccessRule()
NOTHING = AccessRule(numbers=frozenset())


class Access:
    """Applies a rule, for the time of one answer: the function is asked once about each session, and about no more
    than `MAX_ASKED`. If there are more (`is_exhausted`), their families are `unasked`, and they are not shown."""

    def __init__(self, runtime: Runtime, rule: AccessRule = EVERYTHING) -> None:
        self._runtime = runtime
        self.rule = rule
        self.unasked: set[int] = set()
        self._answers: dict[int, bool] = {}

    @property
    def is_exhausted(self) -> bool:
        return bool(self.unasked)

    async def admit(self, rows: Collection[SessionRow]) -> list[SessionRow]:
        """Those of the sessions that may be shown, in the given order."""
        accepted = [row for row in rows if self.rule.accepts(row)] if self.rule.is_limited else list(rows)
        if self.rule.function is None:
            return accepted
        unknown = [row for row in accepted if row.number not in self._answers]
        allowed = MAX_ASKED - len(self._answers)
        self.unasked.update(row.family for row in unknown[allowed:])
        for start in range(0, min(len(unknown), allowed), _BATCH):
            await self._ask(self.rule.function, unknown[start : min(start + _BATCH, allowed)])
        return [row for row in accepted if self._answers.get(row.number)]

    async def _ask(self, function: SessionFilter, rows: Sequence[SessionRow]) -> None:
        measured = await trees.measure_rows(self._runtime, rows)
        states = await live_states(self._runtime, measured)
        max_tokens = self._runtime.settings.compaction.max_tokens
        infos = [
            SessionInfo.from_row(row, session_window(row, max_tokens), live)
            for row, live in zip(measured, states, strict=True)
        ]
        answers = await call_each(function, infos)
        self._answers.update((row.number, bool(answer)) for row, answer in zip(rows, answers, strict=True))


# which of them shows a text


class Entry(NamedTuple):
    """A text that matched, its score, the session to which it is attributed, and the round of the search that found
    it."""

    score: float
    match: IndexMatch
    row: SessionRow
    round: int = 0


async def attribute_hits(
    runtime: Runtime, request: Request, matches: Sequence[IndexMatch], access: Access
) -> dict[Address, SessionRow]:
    """For each text that a session sees which passes the filters and may be shown: such a session."""
    attribution = _Attribution(runtime, matches)
    if request.narrows_sessions or access.rule.is_limited:
        await attribution.limit(request, access)
    return {
        match.address: row
        for match, row in await attribution.rows()
        if row is not None and request.is_in_time(match.time_in(row))
    }


async def count_hits(runtime: Runtime, entries: Sequence[Entry], *, is_part: bool) -> int:
    """How many hits some entries are.

    An edited message can be among them twice. When no session sees its old text any more, its row has the text of the
    edit. A lookup that finds the row without the edit attributes it to the session that is alone in its family. If the
    entries are only a part of what is found (`is_part`), the edit may be in another part, and is counted there."""
    if is_part:
        # A session that has changed nothing and inherited nothing has no edits.
        changed = {entry.row.id for entry in entries if entry.row.revision or entry.row.base}
        trees = await load_trees(runtime, sorted(changed)) if changed else []
        edits = {tree.session.number: tree.replaced for tree in trees}
        entries = [
            entry
            for entry in entries
            if entry.match.address.kind != "message" or entry.match.place not in edits.get(entry.row.number, ())
        ]
    return len({(entry.row.number, entry.match.place or entry.match.address) for entry in entries})


class _Attribution:
    """Finds a session for each of some texts.

    A family can have thousands of sessions, so that as few of them are loaded as possible. A session that is alone in
    its family sees everything that is stored for it. For other texts the trees of sessions are loaded: first those of
    the owners, then those of the sessions with the latest activity, a few at first and then more, until there is one
    that sees the text."""

    def __init__(self, runtime: Runtime, matches: Sequence[IndexMatch]) -> None:
        self._runtime = runtime
        self._matches = matches
        self._families = list(dict.fromkeys(match.family for match in matches))
        self._shown: dict[int, list[SessionRow]] | None = None
        self._alone: set[int] = set()

    async def limit(self, request: Request, access: Access) -> None:
        """Attribute texts only to sessions that pass the filters and may be shown."""
        rows = await self._relatives(self._families)
        by_family = _grouped(rows)
        self._alone = {family for family, related in by_family.items() if len(related) == 1}
        # A function may not be asked about all of them: the families of the first matches come first.
        in_order = [row for family in self._families for row in by_family.get(family, ())]
        self._shown = _grouped(await access.admit([row for row in in_order if request.accepts(row)]))

    async def rows(self) -> list[tuple[IndexMatch, SessionRow | None]]:
        """Each text with its session; None if there is none."""
        known = await self._latest(self._families, _FIRST_VIEWERS)
        if self._shown is None:
            self._alone = {family for family in self._families if len(known.get(family, ())) == 1}
        named = await self._sessions()
        edited = {match.family for match in self._matches if match.address.kind == "edit"}
        found: dict[Address, SessionRow | None] = {}
        shared: list[IndexMatch] = []
        for match in self._matches:
            if match.address.kind == "session":
                found[match.address] = named.get(match.address.number)
            elif match.family in self._alone and match.family not in edited:
                found[match.address] = next(iter(known.get(match.family, ())), None)
            elif match.family in known:
                shared.append(match)
        found |= await self._viewers(shared, known)
        return [(match, found.get(match.address)) for match in self._matches]

    async def _viewers(
        self, matches: Sequence[IndexMatch], known: Mapping[int, list[SessionRow]]
    ) -> dict[Address, SessionRow]:
        """For texts that several sessions may see: the owner, or the one with the latest activity that does."""
        families = list(dict.fromkeys(match.family for match in matches))
        viewers = Viewers()
        await viewers.load(self._runtime, await self._by_tree(families, await self._owner_trees(matches)))
        found = {match.address: row for match in matches if (row := viewers.owner(match)) is not None}
        left = [match for match in matches if match.address not in found]
        count, latest = _FIRST_VIEWERS, known
        while left:
            families = list(dict.fromkeys(match.family for match in left))
            await viewers.load(self._runtime, [row for family in families for row in latest.get(family, ())])
            for match in left:
                row = viewers.first_of(latest.get(match.family, ()), match)
                found |= {} if row is None else {match.address: row}
            # Of a family with fewer sessions than that, all have been looked at.
            left = [one for one in left if one.address not in found and len(latest.get(one.family, ())) >= count]
            count *= _MORE_VIEWERS
            latest = await self._latest(list(dict.fromkeys(match.family for match in left)), count)
        return found

    # reading

    async def _relatives(self, families: Sequence[int]) -> list[SessionRow]:
        return await self._runtime.store.relatives(self._runtime.namespace, families) if families else []

    async def _latest(self, families: Sequence[int], count: int) -> dict[int, list[SessionRow]]:
        """Up to `count` sessions of each family that may be shown, those with the latest activity first."""
        if self._shown is not None:
            return {family: sorted(self._shown.get(family, ()), key=_activity)[:count] for family in families}
        if not families:
            return {}
        store = self._runtime.store
        return _grouped(await store.relatives(self._runtime.namespace, families, latest=count))

    async def _sessions(self) -> dict[int, SessionRow]:
        """The sessions whose own texts are among the matches, by number."""
        numbers = [match.address.number for match in self._matches if match.address.kind == "session"]
        if self._shown is not None:
            return {row.number: row for rows in self._shown.values() for row in rows}
        rows = await self._runtime.store.sessions(self._runtime.namespace, numbers) if numbers else []
        return {row.number: row for row in rows}

    async def _owner_trees(self, matches: Sequence[IndexMatch]) -> list[int]:
        """The trees that these texts belong to."""
        store, namespace = self._runtime.store, self._runtime.namespace
        segments = sorted({match.address.number for match in matches if match.address.kind == "message"})
        others = [match.address for match in matches if match.address.kind != "message"]
        trees = {row.tree for row in await store.segments(namespace, segments)} if segments else set()
        return sorted(trees.union((await store.owner_trees(namespace, others)).values() if others else ()))

    async def _by_tree(self, families: Sequence[int], trees: Sequence[int]) -> list[SessionRow]:
        """The sessions that own these trees and may be shown."""
        if self._shown is not None:
            wanted = set(trees)
            return [row for rows in self._shown.values() for row in rows if row.tree in wanted]
        if not trees or not families:
            return []
        return await self._runtime.store.relatives(self._runtime.namespace, families, trees=trees)


def _grouped(rows: Iterable[SessionRow]) -> dict[int, list[SessionRow]]:
    by_family: dict[int, list[SessionRow]] = {}
    for row in rows:
        by_family.setdefault(row.family, []).append(row)
    return by_family


def _activity(row: SessionRow) -> tuple[int, int]:
    return -row.last_active_at, -row.number


def viewers_of_trees(trees: Iterable[Tree]) -> Viewers:
    """The sessions of these trees."""
    viewers = Viewers()
    viewers.add(trees)
    return viewers


class Viewers:
    """Sessions that may be shown, with what each of them sees."""

    def __init__(self) -> None:
        self._trees: dict[int, Tree] = {}
        self._by_activity: list[SessionRow] = []
        self._by_tree: dict[int, SessionRow] = {}
        self._owners: dict[tuple[TextKind, int], int] = {}

    async def load(self, runtime: Runtime, rows: Iterable[SessionRow]) -> bool:
        """Add sessions; False if all of them were there already."""
        wanted = {row.number: row.id for row in rows if row.number not in self._trees}
        trees = await load_trees(runtime, list(wanted.values())) if wanted else []
        # An id may have been deleted and used again.
        self.add(tree for tree in trees if tree.session.number in wanted)
        return bool(wanted)

    def add(self, trees: Iterable[Tree]) -> None:
        for tree in trees:
            self._trees[tree.session.number] = tree
            self._owners.update({("message", row.number): row.tree for row in tree.rows.segments})
            self._owners.update({("edit", row.number): row.tree for row in tree.replaced.values()})
            self._owners.update({("overlay", row.number): row.tree for row in tree.rows.overlays})
        self._by_activity = sorted((tree.session for tree in self._trees.values()), key=_activity)
        self._by_tree = {row.tree: row for row in self._by_activity}

    def first(self, match: IndexMatch) -> SessionRow | None:
        """The session to which a text is attributed; None if none of them sees it."""
        if match.address.kind == "session":
            tree = self._trees.get(match.address.number)
            return None if tree is None else tree.session
        return self.owner(match) or self.first_of(self._by_activity, match)

    def owner(self, match: IndexMatch) -> SessionRow | None:
        """The session that a text belongs to, if it still sees the text."""
        row = self._by_tree.get(self._owners.get(match.address[:2], 0))
        return row if row is not None and sees(self._trees[row.number], match) else None

    def first_of(self, rows: Iterable[SessionRow], match: IndexMatch) -> SessionRow | None:
        """The first of some sessions that sees a text."""
        return next((row for row in rows if row.number in self._trees and sees(self._trees[row.number], match)), None)


def sees(tree: Tree, match: IndexMatch) -> bool:
    """Whether a session sees a text: a message that it has not replaced, its own replacement, or a summary."""
    kind, number, _ = match.address
    if kind == "overlay":
        return tree.shows_summary(number)
    if match.place is None or not tree.sees(match.place):
        return False
    edit = tree.replaced.get(match.place)
    return edit is None if kind == "message" else edit is not None and edit.number == number
