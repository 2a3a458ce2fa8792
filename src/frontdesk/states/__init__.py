"""Typed state with time-to-live: values for each session id, updated atomically, that expire when nobody uses them."""

from frontdesk.states.codec import MAX_STATE_BYTES
from frontdesk.states.expiry import DEFAULT_TTL
from frontdesk.states.states import StateInfo, States

__all__ = ["DEFAULT_TTL", "MAX_STATE_BYTES", "StateInfo", "States"]
