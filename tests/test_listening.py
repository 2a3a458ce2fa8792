"""The port of a server."""

from __future__ import annotations

import socket

from frontdesk.http.listening import listen


def test_connections_send_what_they_are_given_at_once() -> None:
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
