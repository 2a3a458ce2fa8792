"""Resolves a session by id or by key, and does what every component needs: loads the tree of the session, and applies
plans, again if another writer was first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.deadlines import one_call
from frontdesk.errors import (
    ConfigurationError,
    DamagedRecordError,
    SessionNotFoundError,
    TurnLostError,
)
from frontdesk.history import trees, views
from frontdesk.keys import SessionKey
from frontdesk.messages import Message, check_id, new_id
from frontdesk.search import index
from frontdesk.store import (
    ANY_HEAD,
    AnyHead,
    Fence,
    Item,
    LockingStore,
    NewSession,
    Place,
    Plan,
    SessionRow,
    TreeRows,
    ViewRow,
)
from frontdesk.tree import plans
from frontdesk.tree.append import check_head
from frontdesk.tree.owners import key_of
from frontdesk.tree.tree import Tree

T = TypeVar("T")
_FREE_ATTEMPTS = 4
"""how often others may come first before they are kept from a session, where that is possible"""


class Handle:
    """A session by id, or by a key that is resolved at the first I/O. `known_id` is what a key was resolved to before.

    With a `fence`, the number of a turn, all writes belong to that turn, and are refused once it is over."""

    __slots__ = ("_future_id", "_id", "_stored_key", "fence", "key", "runtime")

    def __init__(
        self,
        runtime: Runtime,
        ref: str | SessionKey,
        fence: int | None = None,
        stored_key: SessionKey | None = None,
        known_id: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.fence = fence
        self.key = ref if isinstance(ref, SessionKey) else None
        self._id = known_id if isinstance(ref, SessionKey) else check_id(ref, "session id")
        self._future_id: str | None = None
        self._stored_key = stored_key

    @property
    def id(self) -> str:
        """The session's id. Raises `ConfigurationError` before the first I/O of a handle that was made from a key."""
        if self._id is None:
            raise ConfigurationError(f"the session under key {str(self.key)!r} is not known before the first call")
        return self._id

    @property
    def name(self) -> str:
        """The id, or the key while the id is not known: for errors."""
        return self._id if self._id is not None else str(self.key)

    @property
    def known_key(self) -> SessionKey | None:
        """The key that the session is stored under, if it is known without I/O."""
        return self._stored_key if self.key is None else self.runtime.stored_key(self.key)

    @property
    def is_resolved(self) -> bool:
        """Whether the id is known."""
        return self._id is not None

    @property
    def future_id(self) -> str:
        """The id, or the one that the session will have if this handle creates it."""
        if self._id is not None:
            return self._id
        if self._future_id is None:
            self._future_id = new_id()
        return self._future_id

    @property
    def turn(self) -> Fence | None:
        """The turn that all writes belong to, if there is one."""
        return None if self.fence is None else Fence(self.id, self.fence)

    def forget_id(self) -> None:
        """Resolve the key again at the next call."""
        if self.key is not None:
            self._id = self._future_id = None

    # finding and making the session

    async def readable_id(self) -> str | None:
        """The id for reads; None if there is no session under the key."""
        if self._id is None and self.key is not None:
            runtime = self.runtime
            row = await runtime.store.get_current(runtime.namespace, runtime.stored_key(self.key).parts)
            self._id = None if row is None else row.id
        return self._id

    async def writable_id(self) -> str:
        """The id for writes. If there is no session under the key, one is created."""
        return self._id if self._id is not None else (await self.ensure()).id

    async def ensure(self) -> SessionRow:
        """The session's row, created if there is none. In a turn it must exist, else `TurnLostError` is raised.

        If the session of a key was deleted, the one that is current under the key by now takes its place, or a new one:
        a session that is made for a key is always found by that key."""
        if self.fence is not None:
            row = await self.find_row()
            if row is None:
                raise TurnLostError(self.id, self.fence)
            return row
        agent, channel, peer, thread = self.runtime.stored_key(self.key).parts if self.key else (None,) * 4
        row, made = await self.runtime.store.create(
            NewSession(
                namespace=self.runtime.namespace,
                id=new_id() if self.key and self._id is not None else self.future_id,
                now=self.runtime.now(),
                agent=agent,
                channel=channel,
                peer=peer,
                thread=thread,
            )
        )
        self._id = row.id
        if made:
            self.announce("on_session_start")
        return row

    def announce(self, event: str, *values: Any) -> None:
        """Call the hooks, in the background."""
        self.runtime.hooks.announce(self.id, event, *values)

    # reading

    async def find_row(self) -> SessionRow | None:
        """The session's row, or None."""
        session_id = await self.readable_id()
        row = None if session_id is None else await self.runtime.store.get(self.runtime.namespace, session_id)
        if row is not None and self.key is None:
            parts = key_of(row)
            self._stored_key = None if parts is None else SessionKey(*parts)
        return row

    async def stored_key(self) -> SessionKey | None:
        """The key that the session is stored under, or will be; None for a session without one."""
        if self.key is None and await self.find_row() is None:
            return None
        return self.known_key

    async def row(self) -> SessionRow:
        """The session's row. Raises `SessionNotFoundError`."""
        row = await self.find_row()
        if row is None:
            raise SessionNotFoundError(self.name, self.runtime.namespace)
        return row

    async def tree(self, *, find: Sequence[str] = (), family: bool = False) -> Tree | None:
        """The shape of the session's messages, with the places of the messages to `find`; None without a session."""
        session_id = await self.readable_id()
        if session_id is None:
            return None
        return await trees.load_tree(self.runtime, session_id, find=find, family=family)

    @one_call
    async def read_places(
        self, choose: Callable[[Tree], Sequence[Place]], *, find: Sequence[str] = ()
    ) -> list[Message] | None:
        """The messages at the places that are chosen from the tree, as of one moment; None without a session.

        Raises `DamagedRecordError` if one is missing although nothing was deleted."""
        attempts, revision = self.runtime.attempts(self.name), -1
        while True:
            await attempts.another()
            tree = await self.tree(find=find)
            if tree is None:
                return None
            items = [item for place in choose(tree) for item in tree.between(place, place)]
            messages = await views.read_items(self.runtime, items)
            if len(messages) == len(items):
                return messages
            if tree.session.revision == revision:
                raise DamagedRecordError("a message of session", self.name)
            revision = tree.session.revision

    # changing

    @one_call
    async def change(
        self,
        build: Callable[[Tree], Awaitable[Plan | None]],
        *,
        find: Sequence[str] = (),
        family: bool | Callable[[Tree], bool] = False,
        expected_head: str | AnyHead | None = ANY_HEAD,
    ) -> bool:
        """Compute a plan from the tree and apply it, again if another change came between; None means nothing to do.

        `family` says whether the plan is about what other sessions see too, or finds out. Returns False if the session
        does not exist. Raises `HeadMovedError` if the head is not `expected_head`."""
        if expected_head is not None and not isinstance(expected_head, AnyHead):
            find = [*find, check_id(expected_head, "expected_head")]
        missed: Sequence[Item] = ()

        async def attempt() -> bool | None:
            nonlocal missed
            tree = await self._tree_for_change(find, family)
            if tree is None:
                check_head(expected_head, None, self.name)
                return False
            try:
                if not plans.is_head(tree, expected_head):
                    check_head(expected_head, await self._head_id(tree), self.name)
                plan = await build(tree)
                return plan is None or await self.apply(plans.only_at_head(plan, tree, expected_head)) or None
            except views.MovedError as error:  # a message that the plan is about was deleted since the tree was loaded
                missed = views.check_missed(error, missed, self.name)
                return None

        return await self._until_applied(attempt)

    async def _until_applied(self, attempt: Callable[[], Awaitable[T | None]]) -> T:
        """The result of the first attempt that no other writer overtakes; one that is overtaken returns None. After a
        few of those, other writers are kept from the session, if the store can do that."""
        store = self.runtime.store
        attempts = self.runtime.attempts(self.name)
        while True:
            await attempts.another()
            if attempts.made > _FREE_ATTEMPTS and isinstance(store, LockingStore) and self._id is not None:
                result = await store.hold(self.runtime.namespace, self._id, attempt)
                index.record_change(self.runtime)  # again: it was not committed before
            else:
                result = await attempt()
            if result is not None:
                return result

    async def _tree_for_change(self, find: Sequence[str], family: bool | Callable[[Tree], bool]) -> Tree | None:
        tree = await self.tree(find=find, family=family is True)
        if tree is not None and callable(family) and family(tree):
            tree = await self.tree(find=find, family=True)
        return tree

    async def _head_id(self, tree: Tree) -> str | None:
        """The id of the message at the head. Raises `views.MovedError` if it was deleted since."""
        head = tree.session.head
        return None if head is None else (await views.read_all(self.runtime, tree.between(head, head)))[0].id

    @one_call
    async def change_whole(
        self, decide: Callable[[TreeRows], Plan | None], prepare: Callable[[Tree], Awaitable[None]]
    ) -> bool:
        """The same for a plan about the whole session. `prepare` is called before each attempt.

        After the first one, the tree is loaded again when `prepare` has returned, so that little time is left for
        others to come between. Returns False if the session does not exist."""
        is_first = True

        async def attempt() -> bool | None:
            nonlocal is_first
            tree = await self.tree(family=True)
            if tree is not None:
                await prepare(tree)
                tree = tree if is_first else await self.tree(family=True)
            is_first = False
            if tree is None:
                return False
            plan = decide(tree.rows)
            return plan is None or await self.apply(plan) or None

        return await self._until_applied(attempt)

    @one_call
    async def change_at_head(self, build: Callable[[SessionRow, ViewRow], Plan | None]) -> bool:
        """The same for a plan that is computed from the session's row and its view, whatever the size of its tree.

        Returns False, and changes nothing, if the session does not exist or `build` returns None: then the tree is
        needed."""
        session_id = await self.readable_id()

        async def attempt() -> bool | None:
            read = None if session_id is None else await self.runtime.store.view(self.runtime.namespace, session_id, 0)
            plan = None if read is None else build(read.session, read.view)
            return plan is not None and (await self.apply(plan) or None)

        return await self._until_applied(attempt)

    @one_call
    async def set(self, values: Callable[[SessionRow], dict[str, Any]]) -> SessionRow:
        """Change columns of the session's row, making the session if needed; returns the row as it was written."""

        async def attempt() -> SessionRow | None:
            row = await self.find_row() or await self.ensure()
            plan = plans.change_row(row, self.runtime.now(), **values(row))
            return plans.changed_row(row, plan) if await self.apply(plan) else None

        return await self._until_applied(attempt)

    @one_call
    async def alter(self, build: Callable[[SessionRow], Plan]) -> SessionRow:
        """Change an existing session by a plan made from its row; returns the row as it was.

        Raises `SessionNotFoundError`."""

        async def attempt() -> SessionRow | None:
            row = await self.row()
            return row if await self.apply(build(row)) else None

        return await self._until_applied(attempt)

    async def apply(self, plan: Plan) -> bool:
        """Apply a plan, in the turn if there is one; False if the session was changed since it was computed."""
        fenced = plan if self.fence is None else msgspec.structs.replace(plan, fence=self.fence)
        is_applied = await self.runtime.store.apply(fenced)
        if is_applied:
            index.record_change(self.runtime)
        return is_applied
