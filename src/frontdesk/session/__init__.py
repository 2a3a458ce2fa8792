"""`Session` and `Turn`: one conversation, alone or in one's turn."""

from frontdesk.session.session import Session, Turn

__all__ = ["Session", "Turn"]
