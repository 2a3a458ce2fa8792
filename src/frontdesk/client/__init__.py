"""`Client`: the API of `SessionManager`, for sessions that a Frontdesk server keeps."""

from frontdesk.client.client import Client

__all__ = ["Client"]
