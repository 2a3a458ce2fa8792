"""`Session` and `Turn`: one conversation, without or with the exclusive right to extend it."""

from frontdesk.session.session import Session, StandaloneSession, Turn

__all__ = ["Session", "StandaloneSession", "Turn"]
