"""`Session` and `Turn`: one conversation, alone or in one's turn."""

from frontdesk.session.session import Session, StandaloneSession, Turn

__all__ = ["Session", "StandaloneSession", "Turn"]
