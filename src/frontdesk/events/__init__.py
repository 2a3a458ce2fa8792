"""Events: all changes of a namespace in commit order, readable from any position. Their kinds are in `store.changes`,
because an event is an entry of the change log."""

from frontdesk.events.feed import Event

__all__ = ["Event"]
