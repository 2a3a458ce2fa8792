"""`create_app`: puts the routes, the gate and the inspector together."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from frontdesk.errors import ConfigurationError
from frontdesk.manager.manager import SessionManager
from frontdesk.server.gate import Gate
from frontdesk.server.keys import ApiKeys
from frontdesk.server.limits import BodyLimit
from frontdesk.server.metrics import Metrics
from frontdesk.server.page import add_page
from frontdesk.server.problems import problem
from frontdesk.server.requests import Requests
from frontdesk.server.routes import (
    administration,
    compactions,
    context,
    events,
    messages,
    meta,
    search,
    sessions,
    states,
    tools,
    transfer,
    turns,
    usage,
    views,
)
from frontdesk.server.settings import ServerSettings
from frontdesk.server.telemetry import Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

# A request is compared with one route after the other: those that are called most come first.
_ROUTES = (
    messages,
    views,
    turns,
    sessions,
    context,
    usage,
    events,
    search,
    tools,
    compactions,
    states,
    meta,
    administration,
    transfer,
)
_EXPOSED = ("ETag", "X-Request-Id", "Idempotency-Replayed", "Retry-After")


def create_app(
    *managers: SessionManager,
    keys: ApiKeys | None = None,
    settings: ServerSettings | None = None,
    tracer_provider: TracerProvider | None = None,
) -> FastAPI:
    """An ASGI app with the API of these managers under `/v1`, and the inspector at `/`. Each manager has a namespace of
    its own; the first one is used unless the caller's key, or the header `Frontdesk-Namespace`, names another.

    With `keys`, and at least one key in it, every caller needs a key. Otherwise only programs on the same machine are
    answered. The app can be mounted under a prefix. It opens and closes nothing: open the managers first, and call
    `end_events` of each when the server begins to shut down, so that event streams do not keep it waiting. `serve` does
    both. Raises `ConfigurationError`."""
    settings = settings or ServerSettings()
    by_namespace = {manager.namespace: manager for manager in managers}
    if not managers or len(by_namespace) < len(managers):
        raise ConfigurationError("an app needs one or more managers, each with a namespace of its own")
    app = FastAPI(
        title="Frontdesk",
        version=version("frontdesk"),
        description="The session layer for AI agents. Names and meaning are those of the Python API.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.gate = Gate(by_namespace, keys, settings)
    app.state.metrics = Metrics()
    for module in _ROUTES:
        app.include_router(module.routes)
    app.include_router(meta.health)
    add_page(app)
    app.add_exception_handler(HTTPException, _as_problem)
    app.add_middleware(BodyLimit, most=settings.max_body)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(Requests, metrics=app.state.metrics, tracing=Tracing(tracer_provider))
    return app


async def _as_problem(request: Request, error: Exception) -> Response:
    """Unknown routes and methods."""
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    return problem(
        error.status_code,
        code,
        code.replace("_", " ").capitalize(),
        str(error.detail),
        request_id=request.state.request_id,
        headers=error.headers,
    )
