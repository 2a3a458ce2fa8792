"""`serve`: runs an app with uvicorn, opens and closes what it needs, and stops without waiting for event streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from frontdesk.errors import ConfigurationError
from frontdesk.http.listening import address_of, listen
from frontdesk.manager.manager import SessionManager
from frontdesk.server.app import create_app
from frontdesk.server.connections import TimedProtocol
from frontdesk.server.keys import ApiKeys
from frontdesk.server.limits import is_loopback
from frontdesk.server.settings import ServerSettings

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


class Server(uvicorn.Server):
    """A server that ends event streams as soon as it is asked to stop."""

    def __init__(self, config: uvicorn.Config, managers: tuple[SessionManager, ...]) -> None:
        super().__init__(config)
        self._managers = managers

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end_streams()
        super().handle_exit(sig, frame)

    def end_streams(self) -> None:
        for manager in self._managers:
            manager.end_events()


async def serve(
    *managers: SessionManager,
    keys: ApiKeys | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    settings: ServerSettings | None = None,
    tracer_provider: TracerProvider | None = None,
    shutdown_timeout: float = 30.0,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until the process is asked to stop, then finish the requests in progress for `shutdown_timeout` seconds.

    `on_listening` is called with the address once connections are accepted; a `port` of 0 is any free one. Without API
    keys the server must listen on the machine's own address: another `host` is refused with a `ConfigurationError`,
    unless the settings say `anonymous`; so is an address that cannot be listened on."""
    settings = settings or ServerSettings()
    app = create_app(*managers, keys=keys, settings=settings, tracer_provider=tracer_provider)
    if not (is_loopback(host) or settings.anonymous or (keys is not None and await keys.count())):
        raise ConfigurationError(
            f"without API keys the server only listens on 127.0.0.1, not on {host}: make a key with `frontdesk keys"
            " create`, or leave out the host"
        )
    config = uvicorn.Config(
        app,
        http=partial(TimedProtocol, settings.head_timeout),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(shutdown_timeout),
    )
    with listen(host, port) as listener:
        if on_listening is not None:
            on_listening(address_of(host, listener))
        await Server(config, managers).serve(sockets=[listener])
