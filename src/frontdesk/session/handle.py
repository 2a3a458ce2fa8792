"""What every operation of a session stands on: which session it is, loading its tree, and changing it without losing
to another writer unseen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConcurrentChangeError, ConfigurationError, SessionNotFoundError
from frontdesk.history import reading
from frontdesk.keys import SessionKey
from frontdesk.messages import Message, check_id, new_id
from frontdesk.store import NewSession, Place, Plan, SessionRow, ViewRow
from frontdesk.tree import plans
from frontdesk.tree.tree import Tree

_ATTEMPTS = 1000
_EAGER_ATTEMPTS = 3


class Handle:
    """A session by id, or by a key that is resolved at the first I/O."""

    _fence: int | None = None
    """the number of the turn that all writes are made in, if any"""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None:
        self._runtime = runtime
        self._key = ref if isinstance(ref, SessionKey) else None
        self._id = None if isinstance(ref, SessionKey) else check_id(ref, "session id")

    @property
    def id(self) -> str:
        """The session's id. A handle made from a key learns it at its first I/O; before, `ConfigurationError`."""
        if self._id is None:
            raise ConfigurationError(f"the session under key {str(self._key)!r} is not known before the first call")
        return self._id

    def _name(self) -> str:
        return self._id if self._id is not None else str(self._key)

    async def _readable_id(self) -> str | None:
        """The id to read by; None if nothing was ever written under the key."""
        if self._id is None and self._key is not None:
            row = await self._runtime.store.get_current(self._runtime.namespace, self._runtime.address(self._key).parts)
            self._id = None if row is None else row.id
        return self._id

    async def _writable_id(self) -> str:
        """The id to write by; under a key without a session, one is made."""
        return self._id if self._id is not None else (await self._ensure()).id

    async def _ensure(self) -> SessionRow:
        agent, channel, peer, thread = (
            self._runtime.address(self._key).parts if self._key and self._id is None else (None,) * 4
        )
        row, made = await self._runtime.store.create(
            NewSession(
                namespace=self._runtime.namespace,
                id=self._id or new_id(),
                now=self._runtime.now(),
                agent=agent,
                channel=channel,
                peer=peer,
                thread=thread,
            )
        )
        self._id = row.id
        if made:
            self._announce("on_session_start")
        return row

    def _announce(self, event: str, *values: Any) -> None:
        """Tell the hooks, beside what is going on."""
        self._runtime.hooks.announce(self, event, *values)

    async def _row(self) -> SessionRow:
        session_id = await self._readable_id()
        row = None if session_id is None else await self._runtime.store.get(self._runtime.namespace, session_id)
        if row is None:
            raise SessionNotFoundError(self._name(), self._runtime.namespace)
        return row

    async def _tree(self, *, find: Sequence[str] = (), family: bool = False) -> Tree | None:
        session_id = await self._readable_id()
        if session_id is None:
            return None
        return await reading.load_tree(self._runtime, session_id, find=find, family=family)

    async def _look(
        self, choose: Callable[[Tree], Sequence[Place]], *, find: Sequence[str] = ()
    ) -> list[Message] | None:
        """The messages at the places that are chosen from the tree, as of one moment; None without a session."""
        for attempt in range(_ATTEMPTS):
            tree = await self._tree(find=find)
            if tree is None:
                return None
            items = [item for place in choose(tree) for item in tree.between(place, place)]
            messages = await reading.read_items(self._runtime, items)
            if len(messages) == len(items):
                return messages
            await _pause(attempt)
        raise self._overtaken()

    async def _change(
        self,
        build: Callable[[Tree], Awaitable[Plan | None]],
        *,
        find: Sequence[str] = (),
        family: bool | Callable[[Tree], bool] = False,
    ) -> bool:
        """Compute a plan from the tree and apply it, again if another change came between; None means nothing to do.

        `family` says whether the plan is about what other sessions see, too, or finds out. False if the session does
        not exist."""
        for attempt in range(_ATTEMPTS):
            tree = await self._tree(find=find, family=family is True)
            if tree is not None and callable(family) and family(tree):
                tree = await self._tree(find=find, family=True)
            if tree is None:
                return False
            plan = await build(tree)
            if plan is None or await self._apply(plan):
                return True
            await _pause(attempt)
        raise self._overtaken()

    async def _change_at_head(self, build: Callable[[SessionRow, ViewRow], Plan | None]) -> bool:
        """The same for a plan that is computed from the session's row and its view, whatever the size of its tree.

        False, and nothing changed, if the session does not exist or `build` gives None: then the tree is needed."""
        session_id = await self._readable_id()
        for attempt in range(_ATTEMPTS):
            known = None if session_id is None else await reading.view_at_head(self._runtime, session_id)
            plan = None if known is None else build(*known)
            if plan is None:
                return False
            if await self._apply(plan):
                return True
            await _pause(attempt)
        raise self._overtaken()

    async def _set(self, values: Callable[[SessionRow], dict[str, Any]]) -> SessionRow:
        """Change columns of the session's row, making the session if needed; gives the row as it was written."""
        for attempt in range(_ATTEMPTS):
            session_id = await self._readable_id()
            row = None if session_id is None else await self._runtime.store.get(self._runtime.namespace, session_id)
            row = row or await self._ensure()
            plan = plans.change_row(row, self._runtime.now(), **values(row))
            if await self._apply(plan):
                return plans.changed_row(row, plan)
            await _pause(attempt)
        raise self._overtaken()

    async def _apply(self, plan: Plan) -> bool:
        fenced = plan if self._fence is None else msgspec.structs.replace(plan, fence=self._fence)
        return await self._runtime.store.apply(fenced)

    async def _alter(self, build: Callable[[SessionRow], Plan]) -> SessionRow:
        """Change an existing session by a plan made from its row; gives the row as it was. `SessionNotFoundError`."""
        for attempt in range(_ATTEMPTS):
            row = await self._row()
            if await self._apply(build(row)):
                return row
            await _pause(attempt)
        raise self._overtaken()

    def _overtaken(self) -> ConcurrentChangeError:
        return ConcurrentChangeError(
            f"session {self._name()!r} was changed by others {_ATTEMPTS} times in a row: try again",
            session_id=self._name(),
        )


async def _pause(attempt: int) -> None:
    """Give way to whoever was first; the longer the queue seems, the longer."""
    if attempt >= _EAGER_ATTEMPTS:
        await asyncio.sleep(random.uniform(0, min(0.001 * attempt, 0.05)))  # noqa: S311 (not a secret)
