"""The state of one of ADK's sessions. It is what its events make of the state that it was created with. Because nothing
else is stored, an event and the changes in it are one write, and a branch or a fork has the state of its own events.

For reads that need only some events, the state at one of them is kept in the metadata of the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from google.adk.events.event_actions import EventActions

from frontdesk.errors import MessageNotFoundError
from frontdesk.integrations.google_adk.events import action_of, time_of
from frontdesk.integrations.google_adk.scoped_states import Values, session_part
from frontdesk.messages import Message
from frontdesk.records import SessionInfo
from frontdesk.session.session import Session

_FIRST = "adk_state"
_KEPT = "adk_state_at"
_KEEP_AFTER = 50
"""events after the kept state; with more, the state is kept again"""


@dataclass(frozen=True)
class StateAt:
    """The state after an event (None: before the first), the number of events up to it, and its time."""

    event_id: str | None
    events: int
    updated: float
    values: Values


def plain_values(state: Values) -> Values:
    """State as JSON, as ADK writes it."""
    plain: Values = EventActions(state_delta=state).model_dump(mode="json")["state_delta"]
    return plain


def first_metadata(state: Values) -> dict[str, Any]:
    """The metadata of a new session with this state."""
    return {_FIRST: session_part(state)}


def first_state(info: SessionInfo) -> StateAt:
    return StateAt(None, 0, info.created_at.timestamp(), info.metadata.get(_FIRST, {}))


def state_after(start: StateAt, messages: Sequence[Message]) -> StateAt:
    """The state after more messages."""
    if not messages:
        return start
    values = dict(start.values)
    for message in messages:
        values.update(session_part(action_of(message, "state_delta", "stateDelta") or {}))
    return StateAt(messages[-1].id, start.events + len(messages), time_of(messages[-1]), values)


async def read_state(session: Session, info: SessionInfo) -> StateAt:
    """The current state, from as few events as possible."""
    start = await _kept_state(session, info)
    try:
        newer = [message async for message in session.transcript(after=start.event_id)]
    except MessageNotFoundError:  # the head is on another branch
        start = first_state(info)
        newer = [message async for message in session.transcript()]
    state = state_after(start, newer)
    if len(newer) > _KEEP_AFTER:
        await session.set_metadata(**{_KEPT: asdict(state)})
    return state


async def _kept_state(session: Session, info: SessionInfo) -> StateAt:
    """The state that was kept, or the first one if events before it have been deleted since."""
    kept = info.metadata.get(_KEPT)
    if kept is None:
        return first_state(info)
    state = StateAt(**kept)
    try:
        length = await session.path_length(state.event_id)
    except MessageNotFoundError:
        length = None
    return state if length == state.events else first_state(info)
