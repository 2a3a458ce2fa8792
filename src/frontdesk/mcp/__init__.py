"""Frontdesk as a server of the Model Context Protocol, for agents that are not written in Python. Needs the extra
`mcp`."""

from frontdesk.extras import needs_extra

with needs_extra("frontdesk.mcp"):
    from frontdesk.mcp.reach import Reach
    from frontdesk.mcp.server import create_server, serve_http, serve_stdio

__all__ = ["Reach", "create_server", "serve_http", "serve_stdio"]
