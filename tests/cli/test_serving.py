"""The commands that keep running, and the keys of a server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.command import Command, command_line

Run = Callable[..., Command]


@contextmanager
def running(
    *arguments: object, folder: Path, program: Sequence[str] = (), log: IO[str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server in a process, with its address, which it prints when it listens. `program` runs the command otherwise
    than as `python -m frontdesk`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRONTDESK")}
    line = [*(program or command_line()), *map(str, arguments), "--port", str(port), "--json"]
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        assert address == f"http://127.0.0.1:{port}"
        yield address, process
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def get(address: str, path: str, key: str | None = None) -> Any:
    """The JSON at a path, or the status of an error."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", headers=headers), timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code


def test_demo_fills_a_file_and_serves_it(frontdesk: Run, tmp_path: Path) -> None:
    assert frontdesk("demo", "show.db", "--only-fill", "--messages", 2_600).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["show.db"]
    with running("demo", "show.db", folder=tmp_path) as (address, _):
        assert get(address, "/healthz") == {"status": "ok"}
        found = get(address, "/v1/sessions?id_prefix=dome")
        assert [session["message_count"] for session in found["items"]] == [2_602]
        blocks = get(address, "/v1/sessions/lisbon/blocks")["items"]
        assert {"soul", "memory", "notes", "house"} <= {block["label"] for block in blocks}


def test_serve_asks_for_a_key_as_soon_as_there_is_one(frontdesk: Run, demo: Path, tmp_path: Path) -> None:
    (made,) = frontdesk("keys", "create", "page", "--role", "read", "--json", store=demo).rows
    assert made["secret"].startswith("fd_")
    assert made["secret"] not in demo.read_bytes().decode("latin-1")
    (listed,) = frontdesk("keys", "list", "--json", store=demo).rows
    assert (listed["id"], listed["name"], listed["role"]) == (made["id"], "page", "read")
    with running("serve", "--store", demo, folder=tmp_path) as (address, _):
        assert get(address, "/v1/sessions") == 401
        assert get(address, "/v1/sessions?limit=1", made["secret"])["items"]
        assert frontdesk("keys", "revoke", made["id"], store=demo).code == 2  # nobody can be asked
        assert frontdesk("keys", "revoke", made["id"], "--yes", store=demo).code == 0
    assert frontdesk("keys", "list", "--json", store=demo).rows == []
    assert frontdesk("keys", "revoke", made["id"], "--yes", store=demo).code == 3


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_without_a_key_only_this_machine_is_served(frontdesk: Run, demo: Path, host: str) -> None:
    refused = frontdesk("serve", "--host", host, store=demo)
    assert refused.code == 2
    assert "frontdesk keys create" in refused.err


def test_serve_logs_each_request_as_json_without_what_was_said(demo: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log, running("serve", "--store", demo, folder=tmp_path, log=log) as served:
        address, _ = served
        assert get(address, "/v1/search?query=quokka")["hits"] == []
        assert get(address, "/v1/sessions/nobody") == 404
    records = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(each["method"], each["route"], each["status"]) for each in records] == [
        ("GET", "/v1/search", 200),
        ("GET", "/v1/sessions/{ref}", 404),
    ]
    assert all(each["level"] == "info" and each["logger"] == "frontdesk.server" for each in records)
    assert "quokka" not in str(records)
    assert "nobody" not in str(records)


@pytest.mark.parametrize("command", [("serve",), ("mcp", "--all", "--http")])
def test_a_port_that_is_taken_is_named(frontdesk: Run, demo: Path, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = frontdesk(*command, "--port", port, store=demo)
    assert (refused.code, refused.out) == (2, "")  # no address is printed before it answers
    why = f"cannot listen on port {port} of 127.0.0.1: Address already in use. Choose another port or address"
    assert refused.err == f"frontdesk: {why}\n"


def test_serve_records_spans_on_request(demo: Path, tmp_path: Path) -> None:
    """The provider is that of the process, as `opentelemetry-instrument` sets it up."""
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open("spans", "w"))))
trace.set_tracer_provider(provider)
from frontdesk.cli.entry import main
main()
"""
    run = [sys.executable, "-c", program]
    with running("serve", "--telemetry", "--store", demo, folder=tmp_path, program=run) as (address, _):
        assert get(address, "/v1/sessions/nobody") == 404
    recorded = (tmp_path / "spans").read_text()
    assert '"name": "GET /v1/sessions/{ref}"' in recorded
    assert '"gen_ai.conversation.id": "nobody"' in recorded
