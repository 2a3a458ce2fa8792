"""The OpenAPI document is complete, and requests that are made from it never make the server fail."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from frontdesk import Session, SessionManager
from frontdesk.server import ServerSettings, create_app

METHODS = ("get", "put", "post", "patch", "delete")
NOT_BY_HTTP = {
    SessionManager: {
        "backup", "check", "export", "import_lines", "import_transcripts", "copy_to", "shelves",
        "close", "session", "end_events", "iterate", "states", "tools", "register_hook", "unregister_hook",
        "forget_state_store", "append", "append_all", "upsert", "history", "delete_messages", "clear_messages",
        "add_compaction", "needs_compaction", "compact", "get", "rename",
    },
    Session: {"create", "turn", "on_overflow", "add_context", "remove_context", "set_lifecycle"},
}  # fmt: skip
"""set-up, handles, what another call does, and what needs the caller's process"""

PAGE_TYPES = Path(__file__).parents[2] / "inspector/src/api/types.ts"
OWN_NAMES = {
    "Desk": "ServerInfo", "Key": "SessionKey", "Page": "Page_SessionInfo_", "Entry": "PathEntry", "Entries": "PathPage",
    "Missing": "Absence", "View": "ViewPage", "BlockPart": "PromptBlock", "Breakdown": "ContextBreakdown",
    "Run": "OutlineRun", "Fork": "OutlineFork", "Turn": "TurnInfo", "Block": "ContextBlock",
    "SearchAnswer": "SearchResults", "UsageAnswer": "Usage", "DeskEvent": "Event",
}  # fmt: skip
"""the names of the inspector for what has another name in the document"""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(SessionManager("memory://")).openapi()


def test_every_route_is_described(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations and path.startswith("/v1"):
                operation = operations[method]
                assert operation.get("description"), (method, path)
                assert {"4XX", "5XX"} <= set(operation["responses"]), (method, path)
    assert {"SessionInfo", "PathPage", "ViewPage", "Outline", "Timeline", "Problem"} <= set(
        document["components"]["schemas"]
    )


def test_the_words_are_those_of_python(document: dict[str, Any]) -> None:
    """Every call that moves data has a route with its own description."""
    described = "\n".join(
        operation["description"]
        for operations in document["paths"].values()
        for operation in operations.values()
        if "description" in operation
    )
    for kind, left_out in NOT_BY_HTTP.items():
        for name, call in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith(("_", "with_")) or name in left_out or name in ("add_tags", "remove_tags"):
                continue
            if name in ("rename", "set_metadata", "set_summary"):
                continue  # parts of PATCH /v1/sessions/{ref}
            assert (inspect.getdoc(call) or "") in described, f"{kind.__name__}.{name}"


def test_the_inspector_reads_only_fields_that_are_described(document: dict[str, Any]) -> None:
    """A message may have any fields. A field with a question mark is there on request."""
    declared = re.findall(
        r"^export type (\w+)(?:<T>)? = (\{[^\n]*\}|\{\n.*?\n\});$", PAGE_TYPES.read_text(), re.MULTILINE | re.DOTALL
    )
    types = {name: re.sub(r"(?<=.)\{.*?\}", "", body, flags=re.DOTALL) for name, body in declared if name != "Message"}
    assert len(types) > 25
    for name, body in types.items():
        schema = document["components"]["schemas"][OWN_NAMES.get(name, name)]
        fields = set(re.findall(r"(?:^|[;\s])(\w+): ", body))
        assert fields, name
        assert fields <= set(schema["properties"]), name


def test_no_request_makes_the_server_fail() -> None:
    """Requests with values of the right types, and of wrong ones."""
    manager = SessionManager("memory://").with_context("memory", max_tokens=1000)
    app = create_app(manager, settings=ServerSettings(anonymous=True, timeout=20, long_timeout=2))
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app)
    tried = 0
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        if operation.path == "/v1/events":
            continue  # a stream without an end
        _try(operation.as_strategy())
        tried += 1
    assert tried > 80


def _try(cases: Any) -> None:
    @given(case=cases)
    @settings(
        max_examples=5, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    def run(case: Any) -> None:
        response = case.call()
        assert response.status_code < 500, (case.method, case.path, response.status_code, response.text)

    run()
