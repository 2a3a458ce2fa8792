"""What every request under `/v1` passes: who calls, what they may do, how often, for how long, and whether it was
answered before. The routes behind it only do their work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any, TypeVar

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from frontdesk.errors import FrontdeskError
from frontdesk.http.addresses import KEY_HEADER, SESSION_HEADER, STORED_MESSAGES, write_header
from frontdesk.manager.manager import SessionManager
from frontdesk.server.access import CallerAccess
from frontdesk.server.idempotency import Answers
from frontdesk.server.keys import ApiKeys, Role
from frontdesk.server.limits import IMPORT, Buckets, is_local
from frontdesk.server.problems import RefusedError, failure, invalid, refusal
from frontdesk.server.settings import ServerSettings
from frontdesk.server.wire import sends_stored
from frontdesk.session.detached import DetachedSession

F = TypeVar("F", bound=Callable[..., Any])
_READS = frozenset({"GET", "HEAD"})
_NEEDED, _LONG = "__frontdesk_role__", "__frontdesk_long__"


def needs(role: Role, *, long: bool = False) -> Callable[[F], F]:
    """Marks a route with the role that it needs (by default, `read` for GET and `write` for others), and whether it
    may take long."""

    def mark(route: F) -> F:
        setattr(route, _NEEDED, role)
        setattr(route, _LONG, long)
        return route

    return mark


class Gate:
    """Decides who passes."""

    def __init__(self, managers: Mapping[str, SessionManager], keys: ApiKeys | None, settings: ServerSettings) -> None:
        self.managers = managers
        self.settings = settings
        self._keys = keys
        self._needs_key = False
        self._buckets = Buckets(settings.rate, settings.burst)
        self._answers = Answers(settings)

    async def admit(self, request: Request) -> CallerAccess:
        """Who calls, with what they may reach. Raises `RefusedError`."""
        secret = _secret(request)
        if secret is None:
            return await self._admit_without_key(request)
        key = None if self._keys is None else await self._keys.find(secret)
        if key is None:
            raise _unauthorized("the API key is not known, or was revoked")
        self._needs_key = True
        wait = self._buckets.take(key.id)
        if wait:
            raise RefusedError(
                429,
                "rate_limited",
                f"this key sent too many requests: try again in {wait:.1f} s",
                outcome="did not happen",
                headers={"Retry-After": str(max(1, round(wait)))},
            )
        asked = request.headers.get("frontdesk-namespace", key.namespace)
        if asked != key.namespace or asked not in self.managers:
            raise RefusedError(403, "forbidden", "your key belongs to another namespace")
        return CallerAccess(self.managers[asked], key.role, key)

    async def still_admits(self, access: CallerAccess) -> bool:
        """Whether the key of a caller, which has a stream open, was not revoked."""
        return access.key is None or self._keys is None or await self._keys.has(access.key.id)

    async def _admit_without_key(self, request: Request) -> CallerAccess:
        # Revoking the last key must not open the server: once there was a key, callers need one.
        if not self._needs_key and self._keys is not None:
            self._needs_key = await self._keys.count() > 0
        if self._needs_key:
            raise _unauthorized("send an API key as `Authorization: Bearer <key>`")
        if not self.settings.anonymous and not is_local(request):
            raise _unauthorized("without API keys, the server only answers programs on its own machine")
        name = request.headers.get("frontdesk-namespace", next(iter(self.managers)))
        if name not in self.managers:
            raise RefusedError(404, "not_found", f"this server has no namespace {name!r}")
        return CallerAccess(self.managers[name], "admin")

    async def pass_on(
        self, request: Request, route: GatedRoute, handle: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Let a request through to its route. Raises `RefusedError`."""
        access = await self.admit(request)
        request.state.access = access
        sends_stored.set(STORED_MESSAGES in request.headers.get("accept", ""))
        is_read = request.method in _READS
        access.require(getattr(route.endpoint, _NEEDED, "read" if is_read else "write"))
        route.check_query(request)
        is_long = getattr(route.endpoint, _LONG, False)
        seconds = self.settings.long_timeout if is_long else self.settings.timeout

        async def work() -> Response:
            try:
                async with asyncio.timeout(seconds):
                    return await handle(request)
            except TimeoutError:
                outcome = "did not happen" if is_read else "may have happened"
                raise RefusedError(504, "timeout", f"not finished after {seconds:g} s", outcome=outcome) from None

        key = request.headers.get("idempotency-key")
        if key is None or is_read or route.path == IMPORT:  # a second import does nothing; its body is not kept
            return await work()
        return await self._answers.answer(access, key, request, work)


class GatedRoute(APIRoute):
    """A route behind the gate of its app. Errors become problem documents here, so that they are also what is
    repeated for an `Idempotency-Key`."""

    @cached_property
    def _query_names(self) -> frozenset[str]:
        """The names of the parameters that the route takes in its query."""
        fields = get_flat_params(self.dependant)
        return frozenset(field.alias for field in fields if isinstance(field.field_info, params.Query))

    def check_query(self, request: Request) -> None:
        """A misspelled filter must not return everything. Raises `RefusedError`."""
        for name in request.query_params:
            if name not in self._query_names:
                choices = ", ".join(sorted(self._query_names)) or "none"
                raise RefusedError(400, "invalid_input", f"unknown parameter {name!r}: this route has {choices}")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def checked(request: Request) -> Response:
            try:
                return await inner(request)
            except RequestValidationError as error:
                raise invalid(error.errors()) from None
            except (HTTPException, RecursionError):  # not JSON, not UTF-8, or nested too deeply
                raise RefusedError(400, "invalid_input", "the body cannot be read as JSON") from None

        async def answered(request: Request) -> Response:
            response = await handled(request)
            _name_session(request, response)
            return response

        async def handled(request: Request) -> Response:
            try:
                return await checked(request)
            except FrontdeskError as error:
                return failure(error, request.state.request_id)
            except RefusedError as error:
                return refusal(error, request.state.request_id)

        async def gated(request: Request) -> Response:
            gate: Gate = request.app.state.gate
            try:
                return await gate.pass_on(request, self, answered)
            except RefusedError as error:
                return refusal(error, request.state.request_id)
            except FrontdeskError as error:  # the store of the keys, or of the answers
                return failure(error, request.state.request_id)

        return gated


def _name_session(request: Request, response: Response) -> None:
    """Say which session the handle of the request has found, for the next request of the same handle."""
    session: DetachedSession | None = getattr(request.state, "session", None)
    if session is not None and session.is_resolved:
        response.headers[SESSION_HEADER] = write_header(session.id)
        if session.key is not None:
            response.headers[KEY_HEADER] = write_header(str(session.key))


def access_of(request: Request) -> CallerAccess:
    """The access of the caller, for routes."""
    access: CallerAccess = request.state.access
    return access


def _secret(request: Request) -> str | None:
    """The key that the caller sent, in a header only: addresses end up in logs."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.headers.get("x-api-key")


def _unauthorized(text: str) -> RefusedError:
    return RefusedError(401, "unauthorized", text, headers={"WWW-Authenticate": "Bearer"})
