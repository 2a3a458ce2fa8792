"""Opens the port of a server, for the HTTP API and for MCP, and refuses an address that cannot be used in one way."""

from __future__ import annotations

import os
import socket

from frontdesk.errors import ConfigurationError

_BACKLOG = 2048
"""connections that wait to be accepted"""


def listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections; a `port` of 0 is any free one. Raises `ConfigurationError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # Connections inherit it. Otherwise the body of a response waits until its head is acknowledged: for 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)  # below 0: no such host
        raise ConfigurationError(
            f"cannot listen on port {port} of {host}: {why}. Choose another port or address"
        ) from None


def address_of(host: str, listener: socket.socket) -> str:
    """The address that a browser opens."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
