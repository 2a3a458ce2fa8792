"""What happens around every request: its id, the headers of its answer, a log record, a figure and a span."""

from __future__ import annotations

import logging
import secrets
import time
from traceback import format_tb
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frontdesk.server.metrics import Metrics
from frontdesk.server.problems import problem
from frontdesk.server.security import HEADERS, NO_STORE
from frontdesk.server.telemetry import Tracing
from frontdesk.server.wire import split_path

_log = logging.getLogger("frontdesk.server")
_SECURITY = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Requests:
    """The outermost layer of the app. Nothing that was said, and no id of a person, is logged: only the template of the
    route."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracing: Tracing) -> None:
        self._app = app
        self._metrics = metrics
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                more = [*_SECURITY, (b"x-request-id", request_id.encode())]
                if b"cache-control" not in present:
                    more.append((b"cache-control", NO_STORE.encode()))
                message["headers"] = [*message["headers"], *(each for each in more if each[0] not in present)]
                self._report(scope, status, time.perf_counter() - started)
            await send(message)

        with self._metrics.in_progress.track_inprogress(), self._tracing.span(scope) as span:
            try:
                await self._run(scope, receive, with_headers, request_id)
            except Exception as error:
                # The text of an unexpected error may contain what was said: only its type is reported.
                _log.error("a request failed: %s\n%s", type(error).__name__, "".join(format_tb(error.__traceback__)))
                if status:
                    raise
                await _unexpected(request_id)(scope, receive, with_headers)
            span.finish(scope, status)

    async def _run(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        raw = scope.get("raw_path")
        if raw:
            try:
                scope["path"] = split_path(raw)
            except UnicodeDecodeError:
                text = "the path is not UTF-8"
                await problem(400, "invalid_input", "InvalidInputError", text, request_id=request_id)(
                    scope, receive, send
                )
                return
        await self._app(scope, receive, send)

    def _report(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = route_of(scope)
        self._metrics.observe(method, route, status, seconds)
        access = scope["state"].get("access")
        record: dict[str, Any] = {
            "request_id": scope["state"]["request_id"],
            "method": method,
            "route": route,
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "namespace": None if access is None else access.manager.namespace,
            "api_key": None if access is None or access.key is None else access.key.id,
        }
        _log.info("%s %s %d", method, route, status, extra={"frontdesk": record})


def route_of(scope: Scope) -> str:
    """The template of the route that answered."""
    return getattr(scope.get("route"), "path_format", "none")


def _unexpected(request_id: str) -> ASGIApp:
    text = "the server failed unexpectedly: its log has the request id"
    return problem(500, "internal", "Internal error", text, outcome="may have happened", request_id=request_id)
