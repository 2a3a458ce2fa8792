"""About the server: what a caller may do, whether it works, and its figures."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import Response

from frontdesk.errors import FrontdeskError
from frontdesk.server.bodies import ServerInfo
from frontdesk.server.gate import Gate
from frontdesk.server.metrics import Metrics
from frontdesk.server.problems import RefusedError, refusal
from frontdesk.server.routes.parts import AccessOf, router
from frontdesk.server.wire import answer

routes = router("server")
health = APIRouter(tags=["server"])
_READY_WITHIN = 5.0


@routes.get("", response_model=ServerInfo)
async def describe_server(request: Request, access: AccessOf) -> Response:
    """The version of the server, the namespace of the caller, what its key allows, and when compactions start."""
    gate: Gate = request.app.state.gate
    mine = access.manager.namespace
    return answer(
        {
            "name": "frontdesk",
            "version": version("frontdesk"),
            "namespace": mine,
            "namespaces": [mine] if access.key is not None else [*gate.managers],
            "store": gate.settings.store_name,
            "role": access.role,
            "key": access.key,
            "compacts_at": access.manager.compacts_at,
            "position": await access.manager.position(),
        }
    )


@health.get("/healthz", response_model=dict[str, str])
async def is_alive() -> Response:
    """Whether the process answers."""
    return answer({"status": "ok"})


@health.get("/readyz", response_model=dict[str, str])
async def is_ready(request: Request) -> Response:
    """Whether the store answers."""
    gate: Gate = request.app.state.gate
    try:
        async with asyncio.timeout(_READY_WITHIN):
            for manager in gate.managers.values():
                await manager.position()
    except (FrontdeskError, TimeoutError):
        error = RefusedError(503, "not_ready", "the store does not answer", outcome="did not happen")
        return refusal(error, request.state.request_id)
    return answer({"status": "ok"})


@health.get("/metrics", response_model=None)
async def read_metrics(request: Request) -> Response:
    """The figures of the server in the format of Prometheus. Needs a key for a whole namespace, if there are keys."""
    gate: Gate = request.app.state.gate
    try:
        access = await gate.admit(request)
        access.require_unbound()
    except RefusedError as error:
        return refusal(error, request.state.request_id)
    metrics: Metrics = request.app.state.metrics
    return metrics.expose()
