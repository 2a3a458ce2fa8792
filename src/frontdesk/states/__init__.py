"""Typed state with time-to-live: a value per session, changed without losing a change, gone when nobody asks for it."""

from frontdesk.states.access import StateInfo, States
from frontdesk.states.lifetimes import DEFAULT_TTL
from frontdesk.states.values import MAX_STATE_BYTES

__all__ = ["DEFAULT_TTL", "MAX_STATE_BYTES", "StateInfo", "States"]
