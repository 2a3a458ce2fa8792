"""Redis with TLS and a password, what calls report if the answers of a server are lost, and how long they wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from frontdesk.errors import StoreError, StoreUnavailableError
from frontdesk.messages import new_id
from frontdesk.store import StateKey, StateWrite
from frontdesk.stores.redis import RedisStore
from tests.servers.proxy import Proxy
from tests.servers.redis_tls import PASSWORD, QUOTED, TLSRedisServer
from tests.waiting import PATIENCE

HOUR = 3_600_000_000


# TLS and password


@pytest.fixture(scope="module")
def secure() -> Iterator[TLSRedisServer]:
    with TLSRedisServer() as server:
        yield server


async def _write_and_read(url: str) -> str:
    store = RedisStore(url)
    key = StateKey("ns", new_id(), "s")
    try:
        await store.create_state(key, StateWrite('"hello"', "m", HOUR))
        found = await store.get_state(key)
    finally:
        await store.close()
    assert found is not None
    return found.value


async def test_states_are_stored_over_tls_with_a_password(secure: TLSRedisServer) -> None:
    assert await _write_and_read(secure.url) == '"hello"'


async def test_a_server_that_wants_certificates_of_its_clients_gets_one() -> None:
    with TLSRedisServer(client_certificates=True) as server:
        assert await _write_and_read(server.url + server.client_options) == '"hello"'
        with pytest.raises(StoreUnavailableError):
            await _write_and_read(server.url)


async def test_a_wrong_password_and_an_unknown_authority_are_refused_without_a_secret(secure: TLSRedisServer) -> None:
    for url in (
        secure.url.replace(QUOTED, "guessed"),
        secure.url.partition("?")[0],
        secure.url.partition("?")[0].replace("rediss:", "redis:"),
    ):
        with pytest.raises(StoreError) as raised:
            await _write_and_read(f"{url}{'&' if '?' in url else '?'}timeout=2")
        assert not raised.value.uncertain
        for secret in (PASSWORD, QUOTED, "guessed"):
            assert secret not in str(raised.value)


# lost answers


@dataclass
class LosingProxy:
    """Passes everything on until the request that contains a word: the server handles it, and its answer is lost, and
    all further connections."""

    port: int
    lose_answer_to: bytes = b""
    url: str = ""
    _open: list[asyncio.StreamWriter] = field(default_factory=list)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[LosingProxy]:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0?timeout=1"
        async with self._server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            while request := await reader.read(1 << 20):
                back.write(request)
                answer = await there.read(1 << 20)
                if self.lose_answer_to and self.lose_answer_to in request:
                    self._server.close()
                    for other in self._open:
                        other.close()
                    return
                writer.write(answer)
        finally:
            writer.close()
            back.close()


CALLS: dict[str, Callable[[RedisStore, StateKey], Awaitable[object]]] = {
    "create": lambda store, key: store.create_state(key, StateWrite('"the new value"', "n", HOUR)),
    "replace": lambda store, key: store.replace_state(key, StateWrite('"the new value"', "n", HOUR), "m"),
    "delete": lambda store, key: store.delete_state(key),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_change_whose_answer_was_lost_may_have_happened(redis_url: str, name: str) -> None:
    key = StateKey("ns", new_id(), "s")
    direct = RedisStore(redis_url)
    for call in CALLS.values():  # the server knows the scripts, so that the first request is the one that counts
        await call(direct, StateKey("ns", new_id(), "s"))
    if name != "create":
        await direct.create_state(key, StateWrite('"first"', "m", HOUR))
    before = await direct.peek_state(key)
    port = int(redis_url.rpartition(":")[2].split("/")[0])
    async with LosingProxy(port).listening() as proxy:
        store = RedisStore(proxy.url)
        await store.get_state(key)
        proxy.lose_answer_to = b"the new value" if name != "delete" else key.id.encode()
        with pytest.raises(StoreUnavailableError, match="may have happened") as raised:
            await CALLS[name](store, key)
        assert raised.value.uncertain
        await store.close()
    after = await direct.peek_state(key)
    assert (after and after.value) != (before and before.value)
    await direct.close()


@pytest.mark.parametrize("name", CALLS)
async def test_a_change_that_could_not_be_sent_did_not_happen(redis_url: str, name: str) -> None:
    port = int(redis_url.rpartition(":")[2].split("/")[0])
    async with LosingProxy(port).listening() as proxy:
        store = RedisStore(proxy.url)
        await store.open()
        await store.close()
    await _assert_not_sent(RedisStore(proxy.url), CALLS[name])


async def _assert_not_sent(store: RedisStore, call: Callable[[RedisStore, StateKey], Awaitable[object]]) -> None:
    with pytest.raises(StoreUnavailableError) as raised:
        await call(store, StateKey("ns", new_id(), "s"))
    assert not raised.value.uncertain
    await store.close()


async def test_a_read_whose_answer_was_lost_is_not_uncertain(redis_url: str) -> None:
    key = StateKey("ns", new_id(), "s")
    port = int(redis_url.rpartition(":")[2].split("/")[0])
    async with LosingProxy(port).listening() as proxy:
        store = RedisStore(proxy.url)
        await store.open()
        proxy.lose_answer_to = key.id.encode()
        with pytest.raises(StoreUnavailableError) as raised:
            await store.get_state(key)
        assert not raised.value.uncertain
        await store.close()


# waiting inside the time limit


def _through(proxy: Proxy, options: str) -> RedisStore:
    return RedisStore(f"redis://127.0.0.1:{proxy.port}/0?{options}")


async def test_an_outage_that_is_shorter_than_the_time_limit_is_not_noticed(redis_url: str) -> None:
    async with Proxy(redis_url) as proxy:
        store = _through(proxy, f"timeout={PATIENCE}")
        keys = [StateKey("ns", new_id(), "s") for _ in range(8)]
        await store.open()
        await proxy.down()
        calls = [asyncio.ensure_future(CALLS["create"](store, key)) for key in keys]
        await asyncio.sleep(1)
        assert not any(call.done() for call in calls)
        await proxy.up()
        assert all(await asyncio.gather(*calls))
        assert all(await asyncio.gather(*map(store.get_state, keys)))
        await store.close()


async def test_no_call_takes_longer_than_the_time_limit(redis_url: str) -> None:
    async with Proxy(redis_url) as proxy:
        store = _through(proxy, "timeout=2&pool=2")
        await asyncio.gather(store.open(), store.open())
        proxy.freeze()
        loop = asyncio.get_running_loop()
        uncertain = []

        async def elapsed(number: int) -> float:
            started = loop.time()
            with pytest.raises(StoreUnavailableError, match="in time") as raised:
                await CALLS["delete"](store, StateKey("ns", str(number), "s"))
            uncertain.append(raised.value.uncertain)
            return loop.time() - started

        slowest = max(await asyncio.gather(*map(elapsed, range(6))))
        assert slowest < 2 * 2
        # There are two connections: what waited for one was not sent.
        assert sorted(uncertain) == [False] * 4 + [True] * 2
        proxy.thaw()
        await store.close()
