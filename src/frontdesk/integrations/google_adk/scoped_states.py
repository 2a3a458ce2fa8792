"""The state that ADK's sessions share: that of a user (`user:`) and that of an app (`app:`).

Such a change belongs to an event or to a new session, and must be made if and only if that is stored. So the change is
announced first. The append of the event decides, and then the change is applied. If a process stops in between, the
next reader looks for the event, and applies the change or ignores it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from google.adk.sessions.state import State

from frontdesk.errors import ConflictError, NotFoundError, StateNotFoundError
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import new_id

Values = dict[str, Any]
PREFIXES = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)
_ABANDONED_AFTER = 3600.0
"""seconds after which nobody stores the event of an announced change any more"""


@dataclass(frozen=True)
class AnnouncedChange:
    """A change that counts once its event is stored, or (without an event) its session."""

    id: str
    session_id: str
    event_id: str | None
    delta: Values
    at: float


@dataclass
class SharedState:
    """The state of a user or of an app."""

    values: Values = field(default_factory=dict)
    announced: list[AnnouncedChange] = field(default_factory=list)


class ScopedStates:
    """Reads and changes the state of users and apps. That of a user is owned by the guest, so that erasing the guest
    removes it; that of an app goes with the agent."""

    def __init__(self, manager: SessionManager, channel: str) -> None:
        self._manager = manager
        self._channel = channel
        self._states = manager.states(SharedState, name="google-adk", ttl=None)

    async def of_app(self, app: str) -> Values:
        return await self._read(self._app_id(app))

    async def of_user(self, app: str, user: str) -> Values:
        return await self._read(self._user_id(app, user))

    async def merged(self, app: str, user: str) -> Values:
        """The state of the app and of the user, under the names that a session has for them."""
        of_app, of_user = await asyncio.gather(self.of_app(app), self.of_user(app, user))
        values = {State.APP_PREFIX + name: value for name, value in of_app.items()}
        return values | {State.USER_PREFIX + name: value for name, value in of_user.items()}

    @asynccontextmanager
    async def changing(
        self, app: str, user: str, delta: Values, session_id: str, event_id: str | None = None
    ) -> AsyncIterator[None]:
        """Make the changes of `delta` that concern the app and the user together with what the block stores."""
        change_id = new_id()
        changed = []
        for state_id, owner, part in self._parts_of(delta, app, user):
            change = AnnouncedChange(change_id, session_id, event_id, part, time.time())
            await self._states.update(state_id, partial(_announced, change), create=True, owner=owner)
            changed.append(state_id)
        try:
            yield
        except ConflictError:
            for state_id in changed:
                await self._settle(state_id, {change_id: False})
            raise
        for state_id in changed:
            await self._settle(state_id, {change_id: True})

    def _parts_of(self, delta: Values, app: str, user: str) -> Iterator[tuple[str, SessionKey, Values]]:
        """What of a delta belongs to the app and to the user: under which id, and with which owner."""
        if of_app := _without_prefix(delta, State.APP_PREFIX):
            yield self._app_id(app), SessionKey(app, f"{self._channel}:app", "app"), of_app
        if of_user := _without_prefix(delta, State.USER_PREFIX):
            yield self._user_id(app, user), SessionKey(app, self._channel, user), of_user

    def _app_id(self, app: str) -> str:
        return _state_id("app", self._channel, app)

    def _user_id(self, app: str, user: str) -> str:
        return _state_id("user", self._channel, app, user)

    async def _read(self, state_id: str) -> Values:
        state = await self._states.get(state_id)
        if state is None:
            return {}
        outcomes = {change.id: await self._outcome(change) for change in state.announced}
        known = {id: stored for id, stored in outcomes.items() if stored is not None}
        if known:
            await self._settle(state_id, known)
        return _settled(state, known).values

    async def _outcome(self, change: AnnouncedChange) -> bool | None:
        """Whether the change counts; None while it is open."""
        try:
            if change.event_id is None:
                await self._manager.session(change.session_id).info()
            else:
                await self._manager.session(change.session_id).get_message(change.event_id)
        except NotFoundError:
            return False if time.time() - change.at > _ABANDONED_AFTER else None
        return True

    async def _settle(self, state_id: str, outcomes: dict[str, bool]) -> None:
        try:
            await self._states.update(state_id, lambda state: _settled(state, outcomes))
        except StateNotFoundError:
            pass  # its owner was erased


def session_part(delta: Values) -> Values:
    """What of a delta belongs to the session alone."""
    return {name: value for name, value in delta.items() if not name.startswith(PREFIXES)}


def has_shared_part(names: Iterable[str]) -> bool:
    return any(name.startswith((State.APP_PREFIX, State.USER_PREFIX)) for name in names)


def _without_prefix(delta: Values, prefix: str) -> Values:
    return {name.removeprefix(prefix): value for name, value in delta.items() if name.startswith(prefix)}


def _announced(change: AnnouncedChange, state: SharedState) -> SharedState:
    return SharedState(state.values, [*state.announced, change])


def _settled(state: SharedState, outcomes: dict[str, bool]) -> SharedState:
    """The state without the announced changes whose outcome is known; those that count are applied, in their order."""
    values = dict(state.values)
    for change in state.announced:
        if outcomes.get(change.id):
            values.update(change.delta)
    return SharedState(values, [change for change in state.announced if change.id not in outcomes])


def _state_id(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
