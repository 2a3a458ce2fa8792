"""The part of `SessionManager` that tells what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator

from frontdesk.events import feed
from frontdesk.events.feed import Event
from frontdesk.keys import SessionKey
from frontdesk.manager.search import SearchCalls


class EventCalls(SearchCalls):
    """What changes in the namespace, whoever changes it."""

    async def events(
        self, after: str | None = None, *, session: str | SessionKey | None = None, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Everything that changes in the namespace, by any process, in order, until the manager is closed.

        Begins behind the event with the position `after`, with nothing lost or repeated; at the oldest event that the
        log holds with `after="start"`; and without `after` with what happens from the first step of the iteration on.
        `session` gives the events of one session only. With `follow=False` it ends with what was there when it began.

        Of a deleted session only "session.deleted" is given, and a message deleted meanwhile not as appended. Raises
        `InvalidCursorError` for a position that is altered or of another namespace, `ChangesTrimmedError` if the log
        does not reach back that far any more."""
        session_id = None if session is None else await self._id_of(session)
        async for event in feed.follow(self._runtime, after, session_id, forever=follow):
            yield event
