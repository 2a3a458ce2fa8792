"""Events: all changes of a namespace in commit order, readable from any position."""

from frontdesk.events.feed import Event

__all__ = ["Event"]
