"""Events: every change of a namespace, in the order of commits, resumable from any position."""

from frontdesk.events.feed import Event

__all__ = ["Event"]
