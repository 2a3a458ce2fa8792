"""Spans for OpenTelemetry, with the semantic conventions for HTTP servers and for generative AI. Without a tracer
provider, nothing is recorded, and the package is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_SYSTEM = "frontdesk"


class ServerSpan:
    """The span of one request; without a tracer, nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def finish(self, scope: Scope, status: int) -> None:
        """Add what is known when the request has been answered: never what was said."""
        if self._span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        route = getattr(scope.get("route"), "path_format", "")
        if route:
            self._span.update_name(f"{scope['method']} {route}")
            self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        for name, value in scope["state"].get("span_attributes", {}).items():
            self._span.set_attribute(name, value)
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))


class Tracing:
    """Starts the spans of requests. A span continues the trace that the caller's `traceparent` names."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer = None if provider is None else provider.get_tracer("frontdesk.server")

    @contextmanager
    def span(self, scope: Scope) -> Iterator[ServerSpan]:
        if self._tracer is None:
            yield ServerSpan()
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"], "url.scheme": scope.get("scheme", "http")}
        with self._tracer.start_as_current_span(
            scope["method"],
            context=extract(headers),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,  # its text may contain what was said
        ) as span:
            yield ServerSpan(span)


def note_conversation(scope: Scope, session_id: str, agent: str | None = None) -> None:
    """Add the session of a request to its span."""
    attributes = scope["state"].setdefault("span_attributes", {})
    attributes["gen_ai.conversation.id"] = session_id
    attributes["gen_ai.provider.name"] = _SYSTEM
    if agent is not None:
        attributes["gen_ai.agent.name"] = agent


def note_usage(scope: Scope, model: str | None, input_tokens: int, output_tokens: int) -> None:
    """Add the figures of a model call to the span of the request that records it."""
    attributes = scope["state"].setdefault("span_attributes", {})
    attributes |= {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": input_tokens,
        "gen_ai.usage.output_tokens": output_tokens,
    }
    if model is not None:
        attributes["gen_ai.request.model"] = model
