"""A real HTTP server on loopback with the OpenAI chat completions, Responses and embeddings APIs and the Anthropic
messages API. It validates requests as strictly as the providers do, and answers wrong ones with their error 400.

    async with ScriptedServer() as server:
        server.script(rate_limit(), Answer("Paris."))
        model = frontdesk.models.openai("gpt-test", base_url=server.openai_url, api_key="key")
        assert await model("Capital of France?") == "Paris."
        assert server.requests[-1].prompt == "Capital of France?"

Answers are streamed if the request asks for it. The server runs in its own threads, so that blocking code can use it
(`with ScriptedServer() as server`).
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

from tests.models.steps import (
    Answer,
    Fault,
    Hang,
    Interrupted,
    Protocol,
    Request,
    Reset,
    Script,
    Step,
    ToolCall,
    Vectors,
    overflow,
    rate_limit,
)
from tests.models.strict import RefusedError, validate
from tests.models.wire import error_body, error_event, events, vectors_body, whole_body

__all__ = [
    "Answer",
    "Fault",
    "Hang",
    "Interrupted",
    "Request",
    "Reset",
    "ScriptedServer",
    "ToolCall",
    "Vectors",
    "overflow",
    "rate_limit",
]

_PATHS: dict[str, Protocol] = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "openai",
    "/v1/embeddings": "openai",
    "/v1/messages": "anthropic",
}
_EXHAUSTED = Fault(400, "the script has no step left for this request", "script_exhausted")
_FINAL_EVENTS = 3
"""How many events a protocol sends after the last piece of text."""


class ScriptedServer:
    """Answers each request with the next step of its script. `requests` are the requests so far, in their order;
    `refused` says why requests were answered with 400, without a step of the script.

    After the end of the script, `otherwise` answers: 400, unless it is set to a step or to a function that returns
    a step for a request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refused: list[str] = []
        self.otherwise: Script = _EXHAUSTED
        self.closing = threading.Event()
        self._steps: deque[Script] = deque()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.scripted = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The `base_url` for the `openai` package."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for the `anthropic` package."""
        return self.url

    def script(self, *steps: Script) -> None:
        """Add steps to the end of the script."""
        self._steps.extend(steps)

    @property
    def left(self) -> int:
        """How many steps have not been used."""
        return len(self._steps)

    def next_step(self, request: Request) -> Step:
        try:
            validate(request.path, request.body)
        except RefusedError as problem:
            self.refused.append(str(problem))
            return Fault(400, str(problem), "invalid_request_error", param=problem.param)
        self.requests.append(request)
        try:
            step = self._steps.popleft()
        except IndexError:
            step = self.otherwise
        return step(request) if callable(step) else step

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


class _Server(ThreadingHTTPServer):
    scripted: ScriptedServer
    daemon_threads = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that disconnect in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """The tests assert on `requests`; nothing is printed."""

    def do_POST(self) -> None:
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(_PATHS[path], path, headers, body)
        step = cast(_Server, self.server).scripted.next_step(request)
        streamed = bool(body.get("stream"))
        if isinstance(step, Fault):
            self._send_json(step.status, error_body(request.protocol, step), dict(step.headers))
        elif isinstance(step, Vectors):
            self._send_json(200, vectors_body(request, step), {})
        elif isinstance(step, Hang):
            self._hang()
        elif isinstance(step, Reset):
            self._reset()
        elif isinstance(step, Interrupted):
            self._interrupt(request, step, streamed)
        elif streamed:
            self._open_stream()
            for event in events(request, step):
                self.wfile.write(event)
        else:
            self._send_json(200, whole_body(request, step), {})

    def _send_json(self, status: int, body: dict[str, Any], headers: dict[str, str], missing: int = 0) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "connection": "close"}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) - missing])

    def _open_stream(self) -> None:
        # Without a length the body ends with the connection: a truncated stream looks complete to the client.
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()

    def _interrupt(self, request: Request, step: Interrupted, streamed: bool) -> None:
        answer = Answer(step.text)
        if streamed:
            self._open_stream()
            whole = list(events(request, answer))
            for event in whole[:-_FINAL_EVENTS]:
                self.wfile.write(event)
            if step.how == "error":
                self.wfile.write(error_event(request.protocol))
        else:
            self._send_json(200, whole_body(request, answer), {}, missing=20)
        if step.how == "reset":
            self._reset()
        elif step.how == "hang":
            self._hang()

    def _hang(self) -> None:
        """Wait until the client gives up or the server closes."""
        self.connection.settimeout(0.02)
        closing = cast(_Server, self.server).scripted.closing
        while not closing.is_set():
            try:
                if not self.connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    def _reset(self) -> None:
        """Close with a linger time of zero, so that the kernel sends a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
