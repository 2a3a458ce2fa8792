"""`Client`: the calls on all sessions of a namespace that a server keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, Self

import httpx2

from frontdesk.client import events, manager_calls
from frontdesk.client.calls import OF_MANAGER, remote
from frontdesk.client.connection import ServerConnection
from frontdesk.client.remote import Remote, RemoteHandle
from frontdesk.client.session import RemoteSession
from frontdesk.client.session_calls import call_tool, sendable
from frontdesk.client.states import RemoteStateStore
from frontdesk.client.values import to_query
from frontdesk.config.builder import Configurable
from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import WideScope, check_wide_scope
from frontdesk.config.settings import ANSWER_TOKENS, check_answer_tokens
from frontdesk.errors import ConfigurationError
from frontdesk.events.feed import Event, check_position
from frontdesk.events.filters import parse_filter
from frontdesk.events.streams import OpenStreams
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.search import tools as search_tools
from frontdesk.search.scopes import ScopedHistory
from frontdesk.session import Session
from frontdesk.states import DEFAULT_TTL, States
from frontdesk.states.migration import Migrate
from frontdesk.states.states import T
from frontdesk.tools import Tool


@remote({**OF_MANAGER, **manager_calls.CALLS})
class Client(SessionManager):
    """The sessions of one namespace of a server, with the API of `SessionManager`.

    `url` is the address of the server, with its prefix if it is mounted under one. Use the client in `async with`, or
    close it. Setup and hooks belong to the server: `with_...`, `compacts_at`, `add_context` and `register_hook`
    raise `ConfigurationError`.

    Errors are those of `SessionManager`. A request without an answer is sent again, up to `retries` times, and takes
    effect once: messages have ids, and other changes an `Idempotency-Key`. If there is still no answer, or none within
    `timeout` seconds, `StoreUnavailableError` is raised, and `uncertain` says whether the change may have happened.
    `AccessDeniedError` means that the server does not accept `api_key`, or that the key does not allow the call."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        api_key: str | None = None,
        timeout: float = 65.0,
        retries: int = 3,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport` is how requests are sent, such as through a proxy; see httpx2."""
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"the URL of a server begins with http:// or https://, unlike {url!r}")
        self._connection = ServerConnection(url, namespace, api_key, timeout, retries, transport)
        self._remote = Remote(self._connection)
        self._local = Runtime("memory://", namespace, DEFAULT_MAX_MESSAGE_BYTES)
        self._states_of_server = RemoteStateStore(self._remote)

    async def __aenter__(self) -> Self:
        self._connection.open()
        await self._local.open()
        return self

    async def close(self) -> None:
        """End all `events()` iterators and close the connections. Idempotent. Afterwards calls raise
        `StoreClosedError`, until `async with` opens the client again."""
        self.end_events()
        await self._local.close()
        await self._connection.close()

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r}, namespace={self.namespace!r})"

    @property
    def namespace(self) -> str:
        return self._local.namespace

    @property
    def compacts_at(self) -> float:
        """Raises `ConfigurationError`: the settings are those of the server."""
        raise ConfigurationError("compacts_at belongs to the server: read it on the manager that is served")

    def session(self, ref: str | SessionKey) -> Session:
        return RemoteSession(RemoteHandle(self._connection, ref))

    def events(
        self,
        *,
        after: str | None = None,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        follow: bool = True,
    ) -> AsyncIterator[Event]:
        """`SessionManager.events`. If the connection is lost, or the server restarts, the stream continues after the
        last event that arrived."""
        parse_filter(self._local, session, agent, channel, peer)
        check_position(after, self.namespace)
        where = {"after": after, "session": session, "agent": agent, "channel": channel, "peer": peer}
        if not follow:
            return events.until_now(self._remote, to_query(where))
        return events.follow(self._remote, to_query(where), self._local.shared(OpenStreams).open())

    def end_events(self) -> None:
        self._local.shared(OpenStreams).end_all()

    def states(
        self,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
        store: Any = None,
        version: int = 1,
        migrate: Migrate[T] | None = None,
    ) -> States[T]:
        """`SessionManager.states`. The values are kept by the server, in the store that it chooses: `store` is
        refused with `ConfigurationError`. `default`, `migrate` and the functions of `update` run in this process."""
        if store is not None:
            raise ConfigurationError("the server decides where states are stored: leave out `store`")
        return States(
            self._local,
            kind,
            name=name,
            default=default,
            ttl=ttl,
            store=self._states_of_server,
            version=version,
            migrate=migrate,
        )

    def tools(self, *, scope: WideScope, max_tokens: int = ANSWER_TOKENS) -> dict[str, Tool]:
        """`SessionManager.tools`. `scope` cannot be a function."""
        wanted = sendable(check_wide_scope(scope))
        options = {"scope": wanted, "max_tokens": check_answer_tokens(max_tokens)}
        described = search_tools.history_tools(
            ScopedHistory(self._local, wanted), search_tools.OF_MANAGER, check_answer_tokens(max_tokens)
        )
        return {
            name: replace(tool, run=partial(call_tool, self._remote, name, options)) for name, tool in described.items()
        }

    def shelves(self, name: str) -> NoReturn:
        """Raises `ConfigurationError`: shelves are not sent over HTTP."""
        raise ConfigurationError("a client has no shelves: use a SessionManager where the store is")

    def register_hook(self, hook: Any, **_: Any) -> None:
        """Raises `ConfigurationError`: hooks belong to the server."""
        raise ConfigurationError("hooks are called by the server: register them on its manager, or follow `events`")

    def unregister_hook(self, hook: Any) -> bool:
        return False


def _refuse_set_up(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Client, *_: Any, **__: Any) -> NoReturn:
        raise ConfigurationError(f"{name} belongs to the server: call it on the manager that is served")

    return refuse


for _name in vars(Configurable):
    if _name.startswith("with_"):
        setattr(Client, _name, _refuse_set_up(_name))
