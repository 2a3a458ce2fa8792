"""`SessionManager`: all sessions of a namespace."""

from frontdesk.manager.manager import SessionManager

__all__ = ["SessionManager"]
