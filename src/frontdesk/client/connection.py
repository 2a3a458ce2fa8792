"""The connection of a client to its server: headers, time limits, repeated requests, and lost answers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2

from frontdesk.client.failures import RETRY_CODES, error_of, parse_problem
from frontdesk.errors import InvalidInputError, StoreClosedError, StoreUnavailableError
from frontdesk.http.addresses import NAMESPACE_HEADER, STORED_MESSAGES
from frontdesk.messages import new_id
from frontdesk.unattended import sleep

LONG_TIMEOUT = 630.0
"""seconds for calls that wait for a model, or work on a whole namespace: a little more than a server allows"""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request. `path` follows `/v1`. A request that is `keyed` has an `Idempotency-Key`: if it is sent twice because
    an answer was lost, it is done once. One that `repeats` can be sent twice anyway."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = False
    repeats: bool = False
    long: bool = False

    @property
    def is_read(self) -> bool:
        return self.method == "GET"


class ServerConnection:
    """Sends requests. Those that fail on the way are sent up to `retries` times more, if they can be."""

    def __init__(
        self,
        url: str,
        namespace: str,
        api_key: str | None,
        timeout: float,
        retries: int,
        transport: httpx2.AsyncBaseTransport | None,
    ) -> None:
        headers = {NAMESPACE_HEADER: namespace, "Accept": f"{STORED_MESSAGES}, application/json"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._headers = headers
        self._transport = transport
        self._http: httpx2.AsyncClient | None = None
        self._timeout = timeout
        self._retries = retries
        self.url = url
        self.is_closed = False

    def open(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def send(self, request: HTTPRequest) -> httpx2.Response:
        """The answer. Raises the error that it reports, and `StoreUnavailableError` if there is none; `uncertain` then
        says whether the request may have been done."""
        key = {"Idempotency-Key": new_id()} if request.keyed else {}
        maybe_done = False
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(request, key)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
                failure: Exception = error
                can_repeat = not isinstance(error, httpx2.PoolTimeout)
            except httpx2.TransportError as error:
                failure, maybe_done = error, not request.is_read
                repeats = request.is_read or request.keyed or request.repeats
                can_repeat = repeats and not isinstance(error, httpx2.TimeoutException)
            else:
                if response.is_success:
                    return response
                problem = parse_problem(response.content)
                if problem.code not in RETRY_CODES or (attempt > self._retries and problem.code == "rate_limited"):
                    raise error_of(response.status_code, problem)
                await sleep(min(_seconds(response.headers.get("retry-after")), self._timeout))
                continue
            if attempt > self._retries or not can_repeat:
                raise self._lost(failure, uncertain=maybe_done) from failure
            await _pause(attempt)

    async def _once(self, request: HTTPRequest, more: Mapping[str, str]) -> httpx2.Response:
        return await self._client().send(self._built(request, more))

    @asynccontextmanager
    async def stream(self, request: HTTPRequest, *, endless: bool = False) -> AsyncIterator[httpx2.Response]:
        """An answer that is read while it is sent; if it is `endless`, there may be long pauses. Raises like `send`."""
        try:
            response = await self._client().send(self._built(request, {}, endless=endless), stream=True)
            try:
                if not response.is_success:
                    raise error_of(response.status_code, parse_problem(await response.aread()))
                yield response
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            raise self._lost(error, uncertain=False) from error

    def _client(self) -> httpx2.AsyncClient:
        if self.is_closed:
            raise StoreClosedError("this client is closed: open it again with `async with`, or make a new one")
        if self._http is None:
            self._http = httpx2.AsyncClient(base_url=self.url, headers=self._headers, transport=self._transport)
        return self._http

    def _built(self, request: HTTPRequest, more: Mapping[str, str], *, endless: bool = False) -> httpx2.Request:
        seconds = LONG_TIMEOUT if request.long else self._timeout
        limits = httpx2.Timeout(seconds, connect=self._timeout, pool=None, read=None if endless else seconds)
        headers = {**request.headers, **more}
        if request.body is not None:
            headers.setdefault("Content-Type", "application/json")
        query = urlencode(request.query, doseq=True)
        path = f"v1{request.path}?{query}" if query else f"v1{request.path}"
        try:
            return self._client().build_request(
                request.method, path, content=request.body, headers=headers, timeout=limits
            )
        except httpx2.InvalidURL as error:
            raise InvalidInputError(f"the arguments do not fit into a URL: {error}") from None

    def _lost(self, error: Exception, *, uncertain: bool) -> StoreUnavailableError:
        done = "the change may have happened: check before trying again" if uncertain else "nothing was written"
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return StoreUnavailableError(f"no answer from {self.url} ({reason}); {done}", uncertain=uncertain)


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after is not None and retry_after.isdigit() else 1.0


async def _pause(attempt: int) -> None:
    await sleep(random.uniform(0, min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)))  # noqa: S311 (not a secret)
