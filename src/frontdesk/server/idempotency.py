"""Answers that are kept for an `Idempotency-Key`, so that a request that is sent again is not done again. They are
states of the namespace, so that all servers of a store know them. An answer may repeat what was said: it is encrypted
with its key, of which only a hash is stored, so that a text that is deleted cannot be read here; and it belongs to the
guest of its session, so that an erasure removes it."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from frontdesk.errors import StateExistsError
from frontdesk.http.addresses import KEY_HEADER, SESSION_HEADER
from frontdesk.server.access import CallerAccess
from frontdesk.server.problems import RefusedError
from frontdesk.server.settings import ServerSettings
from frontdesk.states import States

NAME = "frontdesk:answers"
_KEPT_HEADERS = ("content-type", "etag", "location", SESSION_HEADER, KEY_HEADER)
_MOST = 700_000
"""bytes of the largest answer that is kept"""
_LONGEST_KEY = 255


@dataclass
class StoredAnswer:
    """An answer; `status` is 0 while the request is in progress."""

    request: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


class Answers:
    """Repeats answers."""

    def __init__(self, settings: ServerSettings) -> None:
        self._kept = timedelta(seconds=settings.idempotency)
        self._in_progress = timedelta(seconds=settings.long_timeout)

    async def answer(
        self, access: CallerAccess, key: str, request: Request, work: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer to a request: that of the first time, or what `work` returns. Raises `RefusedError`."""
        if not 0 < len(key) <= _LONGEST_KEY:
            raise RefusedError(400, "invalid_input", f"an Idempotency-Key has 1 to {_LONGEST_KEY} characters")
        states = access.manager.states(StoredAnswer, name=NAME)
        caller = "" if access.key is None else access.key.id
        secret = f"{caller}\n{key}".encode()
        answer_id = hashlib.sha256(secret).hexdigest()
        target = f"{request.method} {request.scope['path']}?{request.url.query}\n".encode()
        asked = hashlib.sha256(target + await request.body()).hexdigest()
        while True:
            try:
                await states.create(answer_id, value=StoredAnswer(asked), ttl=self._in_progress)
                break
            except StateExistsError:
                stored = await states.get(answer_id)
            if stored is not None:
                return _again(stored, asked, secret)
        return await self._first(states, answer_id, StoredAnswer(asked), request, work, secret)

    async def _first(
        self,
        states: States[StoredAnswer],
        answer_id: str,
        started: StoredAnswer,
        request: Request,
        work: Callable[[], Awaitable[Response]],
        secret: bytes,
    ) -> Response:
        response: Response | None = None
        try:
            response = await work()
        finally:
            is_final = response is not None and response.status_code < 500 and response.status_code != 429
            body = b"" if response is None or isinstance(response, StreamingResponse) else bytes(response.body)
            if response is None or not is_final or len(body) > _MOST:
                await asyncio.shield(states.delete(answer_id))
            else:
                headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
                kept = b64encode(_encrypted(body, secret)).decode()
                done = replace(started, status=response.status_code, headers=headers, body=kept)
                session = getattr(request.state, "session", None)
                owner = None if session is None else session.key
                await asyncio.shield(states.set(answer_id, done, ttl=self._kept, owner=owner))
        return response


def _encrypted(body: bytes, secret: bytes) -> bytes:
    """The body, combined with a stream of bytes that follows from the secret; the same call decrypts it. One secret is
    used for one body."""
    stream = hashlib.shake_256(b"frontdesk answer\n" + secret).digest(len(body))
    return (int.from_bytes(body) ^ int.from_bytes(stream)).to_bytes(len(body))


def _again(stored: StoredAnswer, asked: str, secret: bytes) -> Response:
    if stored.request != asked:
        raise RefusedError(422, "idempotency_key_reused", "this Idempotency-Key was sent with another request")
    if not stored.status:
        raise RefusedError(
            409,
            "in_progress",
            "the first request with this Idempotency-Key is still in progress: try again",
            outcome="did not happen",
            headers={"Retry-After": "1"},
        )
    headers = {**stored.headers, "Idempotency-Replayed": "true"}
    return Response(_encrypted(b64decode(stored.body), secret), stored.status, headers)
