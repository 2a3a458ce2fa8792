"""`FrontdeskSessionService`: ADK's sessions, stored as conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from pydantic import PrivateAttr

from frontdesk import errors
from frontdesk.integrations.google_adk import events, session_states
from frontdesk.integrations.google_adk.scoped_states import ScopedStates, Values, has_shared_part
from frontdesk.integrations.google_adk.session_states import StateAt
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import Message, new_id
from frontdesk.records import EndReason, Page, SessionInfo
from frontdesk.session.session import Session as Conversation

_ANNOUNCED = "adk_compaction"
"""metadata: a compaction event, and the first and the last event that it covers, until there is an overlay"""
_PAGE = 200
_REPLACED = (EndReason.NEW, EndReason.COMPACTION)
_STALE = "the session has been changed since it was loaded: load it again before appending more events"


class KnownHead(NamedTuple):
    """The conversation in which a session is stored, and the head of it that the session knows."""

    conversation_id: str
    head: str | None


class _StoredSession(Session):
    """A session that this service has loaded."""

    _known_head: KnownHead = PrivateAttr()


class FrontdeskSessionService(BaseSessionService):
    """Stores the sessions of ADK under keys: the app, the channel, the user and the session.

    Events come back exactly as they were appended. The changes of state in an event take effect if and only if the
    event is stored. Sessions that were changed since they were loaded raise `StaleSessionError`. A rewind starts a
    branch: what it takes back stays stored, and no longer belongs to the session."""

    def __init__(self, manager: SessionManager, *, channel: str = "adk") -> None:
        self._manager = manager
        self._channel = channel
        self._shared = ScopedStates(manager, channel)
        self._locks: WeakValueDictionary[Any, asyncio.Lock] = WeakValueDictionary()

    def conversation(self, session: Session) -> Conversation:
        """The Frontdesk session behind a session of ADK: use it for branches, search, compaction and context blocks."""
        if isinstance(session, _StoredSession):
            return self._manager.session(session._known_head.conversation_id)
        return self._manager.session(self._key(session.app_name, session.user_id, session.id))

    async def create_session(
        self, *, app_name: str, user_id: str, state: Values | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session. Raises `AlreadyExistsError` if its id is taken."""
        key = self._key(app_name, user_id, (session_id or "").strip() or new_id())
        values = session_states.plain_values(state or {})
        conversation_id = new_id()
        try:
            async with self._shared.changing(app_name, user_id, values, conversation_id):
                metadata = session_states.first_metadata(values)
                conversation = await self._manager.create(id=conversation_id, key=key, metadata=metadata)
        except errors.SessionExistsError:
            raise AlreadyExistsError(f"Session with id {key.thread} already exists.") from None
        info = await conversation.info()
        shared = await self._shared.merged(app_name, user_id)
        return _session(info, key, session_states.first_state(info), [], shared)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with all its events; None if there is none. With `config.num_recent_events`, the newest events of
        what the model sees: a summary replaces what it covers, and no tool result is without its call."""
        key = self._key(app_name, user_id, session_id)
        info = await self._manager.get(key)
        if info is None:
            return None
        conversation = self._manager.session(info.id)
        if _ANNOUNCED in info.metadata:
            await _add_overlay(conversation, info.metadata[_ANNOUNCED])
            info = await conversation.info()
        if config is None or (config.num_recent_events is None and config.after_timestamp is None):
            messages = [message async for message in conversation.transcript()]
            compactions = await conversation.compactions() if info.compaction_count else []
            state = session_states.state_after(session_states.first_state(info), messages)
            shown = events.all_events(messages, compactions, app_name)
        else:
            state = await session_states.read_state(conversation, info)
            shown = await self._newest_events(conversation, config, app_name)
        return _session(info, key, state, shown, await self._shared.merged(app_name, user_id))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """All sessions of an app or of a user, without events, the one with the newest event last. For many sessions,
        use `list_page`."""
        found = self._manager.iterate(agent=app_name, channel=self._channel, peer=user_id, limit=_PAGE)
        sessions = await self._without_events([info async for info in found])
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def list_page(
        self, *, app_name: str, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Session]:
        """A page of the sessions of an app or of a user, without events, the one with the newest activity first. Pass
        `next_cursor` of a page as `cursor` for the next one. Raises frontdesk's `InvalidCursorError`."""
        page = await self._manager.list(agent=app_name, channel=self._channel, peer=user_id, limit=limit, cursor=cursor)
        return Page(await self._without_events(page.items), page.next_cursor)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events. The state of the user and of the app stays."""
        info = await self._manager.get(self._key(app_name, user_id, session_id))
        if info is not None:
            await self._shared.merged(app_name, user_id)  # applies what was announced with events of this session
            await self._manager.delete(info.id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> Values:
        """The state of a user, without the prefix `user:`."""
        return await self._shared.of_user(app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event with its changes of state in one write. An event that is already stored changes nothing.

        Raises `StaleSessionError` if other events have been stored since the session was loaded, `SessionNotFoundError`
        if it was deleted, and `AlreadyExistsError` if another event has this id."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        async with self._lock_of(session):
            if not await self._store(session, event):
                return event
            session.last_update_time = event.timestamp
            return self._commit_event_to_session(session, event)

    async def _store(self, session: Session, event: Event) -> bool:
        """Whether the event was stored, instead of being there already."""
        place = await self._known_head_of(session)
        conversation = self._manager.session(place.conversation_id)
        message = events.to_message(event)
        delta = message.value["actions"]["state_delta"]
        if has_shared_part(delta) and await _has(conversation, event.id):
            delta = {}  # the event was delivered before: what it changes may have been changed again since
        parent = await _parent_of(conversation, event)
        covered = events.covered_by(event, session.events)
        if covered is not None and not await _has(conversation, event.id):
            await conversation.set_metadata(**{_ANNOUNCED: [event.id, *covered]})
        try:
            async with self._shared.changing(session.app_name, session.user_id, delta, conversation.id, event.id):
                (appended,) = await conversation.append_all([message], expected_head=place.head, **parent)
        except errors.HeadMovedError:
            if await self._manager.get(conversation.id) is None:
                raise SessionNotFoundError(f"Session {session.id} not found.") from None
            raise StaleSessionError(_STALE) from None
        if appended.inserted:
            if isinstance(session, _StoredSession):
                session._known_head = KnownHead(conversation.id, event.id)
            if covered is not None:
                await _add_overlay(conversation, [event.id, *covered])
        elif appended.message.raw != message.value:
            raise AlreadyExistsError(f"The session has another event with the id {event.id}.")
        return appended.inserted

    async def _known_head_of(self, session: Session) -> KnownHead:
        """Where a session is stored. One that this service did not load is taken to be loaded with its last event."""
        if isinstance(session, _StoredSession) and session._known_head.head is not None:
            return session._known_head
        key = self._key(session.app_name, session.user_id, session.id)
        info = await self._manager.get(
            session._known_head.conversation_id if isinstance(session, _StoredSession) else key
        )
        if info is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        return KnownHead(info.id, session.events[-1].id if session.events else None)

    async def _newest_events(self, conversation: Conversation, config: GetSessionConfig, app: str) -> list[Event]:
        most, since = config.num_recent_events, config.after_timestamp
        if most == 0:
            return []
        if most is None:
            newest: list[Message] = []
            async for message in conversation.transcript(reverse=True):
                if since is not None and events.time_of(message) < since:
                    break
                newest.append(message)
            return events.recent_events(newest[::-1], app)
        view = await conversation.history(last=most)
        return [event for event in events.recent_events(view, app) if since is None or event.timestamp >= since]

    async def _without_events(self, infos: Sequence[SessionInfo]) -> list[Session]:
        """Sessions with their state, but without those that another one has replaced under their key."""
        shared: dict[tuple[str, str], Values] = {}
        sessions: list[Session] = []
        for info in infos:
            key = info.key
            if key is None or key.thread is None or info.end_reason in _REPLACED:
                continue
            user = key.agent, key.peer
            if user not in shared:
                shared[user] = await self._shared.merged(*user)
            state = await session_states.read_state(self._manager.session(info.id), info)
            sessions.append(_session(info, key, state, [], shared[user]))
        return sessions

    def _key(self, app: str, user: str, session_id: str) -> SessionKey:
        return SessionKey(app, self._channel, user, session_id.strip())

    def _lock_of(self, session: Session) -> asyncio.Lock:
        """Agents that run at the same time share a session: one after the other appends to it."""
        place = (asyncio.get_running_loop(), self._key(session.app_name, session.user_id, session.id))
        lock = self._locks.get(place)
        if lock is None:
            lock = self._locks[place] = asyncio.Lock()
        return lock


def _session(info: SessionInfo, key: SessionKey, state: StateAt, shown: list[Event], shared: Values) -> Session:
    session = _StoredSession(
        id=key.thread or "",
        app_name=key.agent,
        user_id=key.peer,
        state=state.values | shared,
        events=shown,
        last_update_time=state.updated,
    )
    session._known_head = KnownHead(info.id, state.event_id)
    return session


async def _has(conversation: Conversation, event_id: str) -> bool:
    try:
        await conversation.get_message(event_id)
    except errors.NotFoundError:
        return False
    return True


async def _parent_of(conversation: Conversation, event: Event) -> dict[str, Any]:
    """Where an event is appended: at the head, or if it rewinds, before the invocation that it takes back."""
    rewound = event.actions.rewind_before_invocation_id
    if rewound is not None:
        async for message in conversation.transcript():
            if events.invocation_of(message) == rewound:
                return {"parent": message.parent_id}
    return {}


async def _add_overlay(conversation: Conversation, announced: Sequence[str]) -> None:
    """Let the view of the conversation follow one of ADK's compactions, if its event was stored. It is announced before
    the event is stored: if the process stops in between, the next one that loads the session finds it."""
    event_id, *covered = announced
    try:
        summary = events.summary_in(await conversation.get_message(event_id))
        await conversation.add_compaction(summary or "", *covered)
    except (errors.MessageNotFoundError, errors.InvalidRangeError):
        pass  # the event was not stored, or what it covers has been deleted since
    await conversation.set_metadata(**{_ANNOUNCED: None})
