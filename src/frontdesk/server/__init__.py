"""The HTTP server: everything that `SessionManager` does, under `/v1`, and the inspector at `/`. Needs the extra
`server`."""

from frontdesk.extras import needs_extra

with needs_extra("frontdesk.server"):
    from frontdesk.server.app import create_app
    from frontdesk.server.keys import ApiKey, ApiKeys, NewApiKey, Role
    from frontdesk.server.logs import JSONFormatter, log_as_json
    from frontdesk.server.serving import serve
    from frontdesk.server.settings import ServerSettings

__all__ = [
    "ApiKey",
    "ApiKeys",
    "JSONFormatter",
    "NewApiKey",
    "Role",
    "ServerSettings",
    "create_app",
    "log_as_json",
    "serve",
]
