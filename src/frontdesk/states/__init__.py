"""Typed states with a time-to-live: values by id, updated atomically, that expire when they are not used."""

from frontdesk.states.codec import MAX_STATE_BYTES
from frontdesk.states.expiry import DEFAULT_TTL
from frontdesk.states.states import StateInfo, States

__all__ = ["DEFAULT_TTL", "MAX_STATE_BYTES", "StateInfo", "States"]
