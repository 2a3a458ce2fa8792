"""Redis with TLS and a password, what calls report if the answers of a server are lost, and how long they wait."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
import redis

from frontdesk.errors import StoreError, StoreFullError, StoreReadOnlyError, StoreUnavailableError
from frontdesk.messages import new_id
from frontdesk.store import StateKey, StateWrite
from frontdesk.stores.redis import RedisStore
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer, wait_until
from tests.servers.redis_tls import PASSWORD, QUOTED, TLSRedisServer
from tests.waiting import PATIENCE, results_within

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
    """Passes everything on until the request that contains a word: the server handles it, and its answer is lost. Then
    `on_loss` is called, or there are no further connections."""

    port: int
    lose_answer_to: bytes = b""
    on_loss: Callable[[], object] | None = None
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
                    if self.on_loss is None:
                        self._server.close()
                    else:
                        self.lose_answer_to = b""
                        await asyncio.to_thread(self.on_loss)
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


@pytest.mark.parametrize("name", ["create", "replace"])
async def test_a_change_that_another_replaced_before_it_was_sent_again_is_not_refused(
    redis_url: str, name: str
) -> None:
    """It was stored. Whoever tries again because it was refused would do it twice."""
    key = StateKey("ns", new_id(), "s")

    async def overtake() -> None:
        other = RedisStore(redis_url)
        assert await other.replace_state(key, StateWrite('"theirs"', "t", HOUR), "n") is not None
        await other.close()

    port = int(redis_url.rpartition(":")[2].split("/")[0])
    async with LosingProxy(port, on_loss=lambda: asyncio.run(overtake())).listening() as proxy:
        store = RedisStore(proxy.url)
        for call in CALLS.values():  # the server knows the scripts, so that each is sent once
            await call(store, StateKey("ns", new_id(), "s"))
        if name == "replace":
            await store.create_state(key, StateWrite('"first"', "m", HOUR))
        proxy.lose_answer_to = b"the new value"
        with pytest.raises(StoreUnavailableError, match="may have happened") as raised:
            await CALLS[name](store, key)
        assert raised.value.uncertain
        found = await store.peek_state(key)
        assert found is not None
        assert found.value == '"theirs"'
        await store.close()


REFUSALS: dict[str, tuple[type[StoreError], tuple[str | int, ...]]] = {
    "read-only": (StoreReadOnlyError, ("REPLICAOF", "127.0.0.1", 1)),
    "full": (StoreFullError, ("CONFIG", "SET", "maxmemory", 1)),
    "denied": (StoreError, ("ACL", "SETUSER", "default", "-@scripting")),
    "too few replicas": (StoreUnavailableError, ("CONFIG", "SET", "min-replicas-to-write", 1)),
}


@asynccontextmanager
async def refusing_after_a_loss(name: str) -> AsyncIterator[tuple[RedisStore, LosingProxy, StateKey]]:
    """A store whose server refuses changes as soon as the proxy has lost an answer, and the key of a state with the
    mark "m". Both the server and the store know the scripts, so that each is sent once."""
    key = StateKey("ns", new_id(), "s")
    with RedisServer("--min-replicas-to-write", "0") as server:
        refuse = partial(server.ask, *REFUSALS[name][1])
        async with LosingProxy(server.port, on_loss=refuse).listening() as proxy:
            store = RedisStore(proxy.url)
            for call in CALLS.values():
                await call(store, StateKey("ns", new_id(), "s"))
            await store.create_state(key, StateWrite('"first"', "m", HOUR))
            yield store, proxy, key
            await store.close()


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_change_that_was_lost_before_the_server_refused_it_may_have_happened(name: str) -> None:
    async with refusing_after_a_loss(name) as (store, proxy, key):
        proxy.lose_answer_to = b"the new value"
        with pytest.raises(REFUSALS[name][0], match="may have happened") as raised:
            await CALLS["replace"](store, key)
        assert raised.value.uncertain


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_between_the_steps_of_a_change_may_have_changed_the_state(name: str) -> None:
    """A state is written, and then its entry of the index again."""
    async with refusing_after_a_loss(name) as (store, proxy, _):
        proxy.lose_answer_to = b"the new value"
        with pytest.raises(REFUSALS[name][0], match="may have happened") as raised:
            await CALLS["create"](store, StateKey("ns", new_id(), "s"))
        assert raised.value.uncertain


Release = Callable[[], object]


def lack_replicas(server: RedisServer) -> Release:
    server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    return lambda: server.ask("CONFIG", "SET", "min-replicas-to-write", 0)


def fail_to_save(server: RedisServer) -> Release:
    server.ask("CONFIG", "SET", "save", "3600 1")
    shutil.rmtree(server.ask("CONFIG", "GET", "dir")["dir"])
    server.ask("BGSAVE")
    wait_until(lambda: server.ask("INFO")["rdb_last_bgsave_status"] == "err", "the server could save")
    return lambda: server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")


def run_a_script(server: RedisServer) -> Release:
    server.ask("CONFIG", "SET", "lua-time-limit", 50)
    _ask_in_background(server, "EVAL", "while true do end", 0)
    wait_until(lambda: _refuses(server, "BUSY"), "the script did not run")
    return lambda: server.ask("SCRIPT", "KILL")


def load_data(server: RedisServer) -> Release:
    """It answers after each key that it has loaded."""
    server.ask("DEBUG", "POPULATE", 10_000, "key", 1_024)
    server.ask("CONFIG", "SET", "rdbcompression", "no")
    server.ask("CONFIG", "SET", "loading-process-events-interval-bytes", 1_024)
    server.ask("CONFIG", "SET", "key-load-delay", 10_000)
    _ask_in_background(server, "DEBUG", "RELOAD")
    wait_until(lambda: _refuses(server, "loading"), "the server did not load")
    return lambda: server.ask("CONFIG", "SET", "key-load-delay", 0)


def _ask_in_background(server: RedisServer, *words: str | int) -> None:
    def ask() -> None:
        with redis.Redis.from_url(server.url) as client, suppress(redis.RedisError):
            client.execute_command(*words)

    threading.Thread(target=ask, daemon=True).start()


def _refuses(server: RedisServer, word: str) -> bool:
    try:
        server.ask("GET", "nothing")
    except redis.RedisError as error:
        return word in str(error)
    return False


def check_says_whether_it_happened(error: StoreError) -> None:
    """After refusals, the time may also be over while one more attempt has no answer yet."""
    assert ("may have happened" if error.uncertain else "nothing was written") in str(error)


OBSTACLES: dict[str, Callable[[RedisServer], Release]] = {
    "NOREPLICAS": lack_replicas,
    "MISCONF": fail_to_save,
    "BUSY": run_a_script,
    "LOADING": load_data,
}


@pytest.mark.parametrize("code", OBSTACLES)
async def test_a_server_that_refuses_for_now_is_waited_for(code: str) -> None:
    key = StateKey("ns", new_id(), "s")
    with RedisServer("--min-replicas-to-write", "0", "--enable-debug-command", "yes") as server:
        known, new = RedisStore(f"{server.url}?timeout={PATIENCE}"), RedisStore(f"{server.url}?timeout={PATIENCE}")
        assert await CALLS["create"](known, key)
        release = await asyncio.to_thread(OBSTACLES[code], server)
        hasty = RedisStore(f"{server.url}?timeout=1")
        for call in CALLS.values():
            with pytest.raises(StoreUnavailableError, match=rf"for now \({code}\)") as raised:
                await call(hasty, key)
            check_says_whether_it_happened(raised.value)
        creating = [
            asyncio.ensure_future(CALLS["create"](each, StateKey("ns", new_id(), "s"))) for each in (known, new)
        ]
        await asyncio.sleep(1)
        assert not any(call.done() for call in creating)
        await asyncio.to_thread(release)
        assert all(await asyncio.gather(*creating))
        found = await known.peek_state(key)
        assert found is not None
        assert found.mark == "n"
        for store in (known, new, hasty):
            await store.close()


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_change_that_a_server_refuses_did_not_happen(name: str) -> None:
    kind, command = REFUSALS[name]
    key = StateKey("ns", new_id(), "s")
    with RedisServer("--min-replicas-to-write", "0") as server:
        patient = RedisStore(server.url)
        is_retried = kind is StoreUnavailableError
        store = RedisStore(f"{server.url}?timeout=1") if is_retried else patient
        await patient.create_state(key, StateWrite('"first"', "m", HOUR))
        server.ask(*command)
        with pytest.raises(kind) as raised:
            await store.replace_state(key, StateWrite('"the new value"', "n", HOUR), "m")
        check_says_whether_it_happened(raised.value)
        assert is_retried or not raised.value.uncertain
        assert server.ask("HGET", f"frontdesk:{{ns:{key.id}}}:state:s", "value") == '"first"'
        await store.close()
        await patient.close()


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
        uncertain = []

        async def fails(number: int) -> None:
            with pytest.raises(StoreUnavailableError, match="in time") as raised:
                await CALLS["delete"](store, StateKey("ns", str(number), "s"))
            uncertain.append(raised.value.uncertain)

        assert await results_within(3.5, map(fails, range(6))) == [None] * 6  # waiting twice would take 4 seconds
        # There are two connections: what waited for one was not sent.
        assert sorted(uncertain) == [False] * 4 + [True] * 2
        proxy.thaw()
        await store.close()
