"""Spans of requests: named by their route, with the conventions for generative AI, and without what was said."""

from __future__ import annotations

import httpx
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from frontdesk import SessionManager
from frontdesk.server import create_app
from tests.server.live import running

SECRET = "the PIN is quokka"
TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_a_request_is_a_span_of_the_caller_s_trace(manager: SessionManager) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app = create_app(manager, tracer_provider=provider)
    async with running(app, manager) as address, httpx.AsyncClient(base_url=address) as client:
        body = {"message": {"role": "user", "content": SECRET}}
        headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        await client.post("v1/sessions/@concierge:web:ana/messages", json=body, headers=headers)
        call = {"input_tokens": 900, "output_tokens": 12, "model": "large"}
        await client.post("v1/sessions/@concierge:web:ana/usage", json=call)
        await client.get("v1/sessions/nobody")
    appended, used, missing = spans.get_finished_spans()
    assert appended.name == "POST /v1/sessions/{ref}/messages"
    assert f"{appended.context.trace_id:032x}" == TRACE
    found = dict(appended.attributes or {})
    assert (found["http.response.status_code"], found["gen_ai.agent.name"]) == (201, "concierge")
    assert found["gen_ai.conversation.id"] == "concierge:web:ana"
    usage = dict(used.attributes or {})
    assert (usage["gen_ai.usage.input_tokens"], usage["gen_ai.request.model"]) == (900, "large")
    assert dict(missing.attributes or {})["http.response.status_code"] == 404
    assert SECRET not in "".join(span.to_json() for span in (appended, used, missing))
