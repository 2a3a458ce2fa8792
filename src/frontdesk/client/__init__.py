"""`Client`: the API of `SessionManager`, for sessions that a Frontdesk server keeps. Needs the extra
`client`."""

from frontdesk.extras import needs_extra

with needs_extra("frontdesk.client"):
    from frontdesk.client.client import Client

__all__ = ["Client"]
