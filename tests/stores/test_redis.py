"""What is specific to Redis: URLs, keys, lost connections, a server that refuses, and a cluster that loses a node."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from frontdesk import SessionKey, SessionManager
from frontdesk.errors import (
    StateStoreMissingError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreURLError,
)
from frontdesk.messages import new_id
from frontdesk.store import StateKey, StateOwner, StateQuery, StateWrite
from frontdesk.stores import open_state_url
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.redis import RedisStore
from frontdesk.stores.redis.engine import RedisEngine
from frontdesk.stores.redis.index import BUCKETS, IndexedState, StateIndex
from frontdesk.stores.redis.url import parse_url
from tests.servers.redis import RedisCluster, RedisServer
from tests.waiting import PATIENCE, eventually

HOUR = 3_600_000_000


@dataclass(frozen=True)
class Counter:
    n: int = 0


def add_one(counter: Counter) -> Counter:
    return replace(counter, n=counter.n + 1)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server for this test only, which it may harm."""
    with RedisServer("--maxmemory-policy", "noeviction") as server:
        yield server


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url)
    yield store
    await store.close()


class TestURLs:
    @pytest.mark.parametrize(
        "url",
        [
            "redis://localhost/0?colour=red",
            "redis://localhost/0?ssl_ca_certs=x",
            "redis://localhost?pool=3&pool=4",
            "redis://localhost?pool=many",
            "redis://localhost?pool=0",
            "redis://localhost?timeout=0",
            "redis://localhost/one",
            "redis://localhost:0",
            "redis://localhost:99999",
            "redis://one,two",
            "redis+cluster://one,two/1",
            "redis+sentinel://one",
        ],
    )
    def test_an_invalid_url_is_refused(self, url: str) -> None:
        with pytest.raises(StoreURLError):
            open_state_url(url)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("redis://", "localhost:6379/0"),
            ("redis://:secret@example.org/3?pool=5&timeout=2", "example.org:6379/3"),
            ("rediss://me:s%40cret@[::1]:7000?ssl_ca_certs=/ca.pem", "::1:7000/0"),
            ("redis+cluster://secret:secret@one,two:7001,three", "one:6379,two:7001,three:6379"),
            ("rediss+cluster://one", "one:6379"),
        ],
    )
    def test_a_store_shows_its_address_and_no_secret(self, url: str, shown: str) -> None:
        assert repr(open_state_url(url)) == f"RedisStore({shown!r})"

    def test_redis_cannot_store_sessions(self) -> None:
        with pytest.raises(StoreURLError, match=r"stores only states.*manager\.states"):
            SessionManager("redis://localhost")

    def test_without_the_driver_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.split(".")[0] == "redis" or "stores.redis" in name]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "redis", None)
        with pytest.raises(StoreURLError, match=r"frontdesk\[redis\]"):
            open_state_url("redis://localhost")


class TestKeys:
    async def test_all_keys_of_one_id_are_in_one_slot_and_expire(self, store: RedisStore, redis_url: str) -> None:
        namespace = new_id()
        for name in ("sessions", "a}b{c"):
            await store.create_state(StateKey(namespace, "{x}:y", name), StateWrite("{}", "m", HOUR))
        async with Redis.from_url(redis_url) as client:
            keys = [key async for key in client.scan_iter(f"*{namespace}*")]
            assert len(keys) == 3
            assert len({key_slot(key) for key in keys}) == 1
            assert all([await client.pttl(key) > 0 for key in keys])
            await store.delete_states(namespace, "{x}:y")
            assert [key async for key in client.scan_iter(f"*{namespace}*")] == []

    async def test_the_list_of_names_outlives_the_states_it_lists(self, store: RedisStore, redis_url: str) -> None:
        namespace = new_id()
        short, long, never = (StateKey(namespace, "chat", name) for name in ("short", "long", "never"))
        async with Redis.from_url(redis_url) as client:

            async def left() -> int:
                (key,) = [key async for key in client.scan_iter(f"*{namespace}*:states")]
                return int(await client.pttl(key))

            await store.create_state(short, StateWrite("{}", "m", 60_000_000))
            assert await left() > 60_000
            await store.create_state(long, StateWrite("{}", "m", HOUR))
            assert await left() > 3_600_000
            await store.touch_state(short)
            assert await left() > 3_600_000
            await store.create_state(never, StateWrite("{}", "m", None))
            await store.touch_state(short)
            assert await left() == -1
        assert await store.delete_states(namespace, "chat") == 3

    async def test_a_list_that_was_evicted_is_made_again_by_use(self, store: RedisStore, redis_url: str) -> None:
        namespace = new_id()
        for name in ("one", "two"):
            await store.create_state(StateKey(namespace, "chat", name), StateWrite("{}", "m", HOUR))
        async with Redis.from_url(redis_url) as client:
            (key,) = [key async for key in client.scan_iter(f"*{namespace}*:states")]
            await client.delete(key)
        for name in ("one", "two"):
            assert await store.get_state(StateKey(namespace, "chat", name))
        assert await store.delete_states(namespace, "chat") == 2


class TestDamage:
    """A key that is not a whole state is reported, and is never "not there"."""

    @pytest.mark.parametrize(
        "damage",
        [
            *(("HDEL", field) for field in ("value", "mark", "version", "ttl", "created", "accessed", "type", "owner")),
            *(("HSET", field, "x") for field in ("version", "ttl", "created", "accessed", "type", "owner")),
            ("HSET", "value", b"\xff"),
            ("HSET", "mark", b"\xff"),
            ("HDEL", *("value", "mark", "version", "ttl", "created", "accessed", "type", "owner"), "and", "all"),
        ],
        ids=lambda damage: "-".join(map(str, damage[:2])),
    )
    async def test_a_damaged_state_is_a_typed_error_and_can_be_deleted(
        self, store: RedisStore, redis_url: str, damage: tuple[str | bytes, ...]
    ) -> None:
        async with SessionManager("memory://", namespace=new_id()) as manager:
            states = manager.states(Counter, store=store)
            await states.create("chat")
            async with Redis.from_url(redis_url) as client:
                key = f"frontdesk:{{{manager.namespace}:chat}}:state:sessions"
                await client.hset(key, "foreign", "field")
                await client.execute_command(damage[0], key, *damage[1:])  # type: ignore[no-untyped-call]
            with pytest.raises(StoreCorruptError, match="'chat'") as raised:
                await states.get("chat")
            assert raised.value.details["name"] == "sessions"
            with pytest.raises(StoreCorruptError):
                await states.update("chat", add_one)
            with pytest.raises(StoreCorruptError):
                await states.info("chat")
            with pytest.raises(StoreCorruptError):
                await states.get_or_create("chat")
            assert await states.delete("chat")
            assert await states.get_or_create("chat") == Counter()

    async def test_a_damaged_state_is_erased_with_its_owner(self, store: RedisStore, redis_url: str) -> None:
        ada = SessionKey("bot", "web", "ada")
        async with SessionManager("memory://", namespace=new_id()) as manager:
            await manager.states(Counter, store=store).create("chat", owner=ada)
            key = f"frontdesk:{{{manager.namespace}:chat}}:state:sessions"
            async with Redis.from_url(redis_url) as client:
                await client.hdel(key, "owner")
                assert (await manager.erase(key=ada)).states == 1
                assert not await client.exists(key)

    async def test_a_key_of_another_type_is_reported_and_can_be_deleted(
        self, store: RedisStore, redis_url: str
    ) -> None:
        key = StateKey(new_id(), "chat", "s")
        async with Redis.from_url(redis_url) as client:
            await client.set(f"frontdesk:{{{key.namespace}:chat}}:state:s", "not a state")
        for call in (store.get_state(key), store.create_state(key, StateWrite("{}", "m", None))):
            with pytest.raises(StoreCorruptError, match="'chat'"):
                await call
        with pytest.raises(StoreCorruptError):
            await store.touch_state(key)
        assert await store.delete_state(key)
        assert await store.create_state(key, StateWrite("{}", "m", None))


class TestIndex:
    async def test_a_page_costs_what_it_shows_and_never_scans_the_keys(self, server: RedisServer) -> None:
        async with SessionManager("memory://") as manager:
            states = manager.states(Counter, store=server.url)
            for start in range(0, 2_000, 500):
                await asyncio.gather(*(states.create(f"chat{number:04}") for number in range(start, start + 500)))
            before = _commands(server)
            page = await states.list(limit=10, prefix="chat1")
            assert [info.id for info in page] == [f"chat{number}" for number in range(1000, 1010)]
            after = _commands(server)
            assert not {"keys", "scan"} & after.keys()
            used = {name: count - before.get(name, 0) for name, count in after.items()}
            assert used["zrangebylex"] == 1
            assert used["evalsha"] <= 40, "one look at each state, and the sweep in the background"

    async def test_entries_of_expired_and_deleted_states_leave_the_index(self, server: RedisServer) -> None:
        store = RedisStore(server.url)
        owner = StateOwner("bot", "web", "ada", None)
        for number, ttl in enumerate((1_000, 1_000, HOUR, None)):
            await store.create_state(StateKey("ns", f"chat{number}", "s"), StateWrite("{}", "m", ttl, owner=owner))
        assert len(_entries(server)) == 8
        await asyncio.sleep(0.01)
        while (await store.sweep_states(3)).more:
            pass
        assert len(_entries(server)) == 4
        await store.delete_states("ns", "chat2")
        await store.delete_state(StateKey("ns", "chat3", "s"))
        assert _entries(server) == []
        await store.close()

    async def test_an_entry_whose_state_was_never_written_is_removed_by_the_sweep(self, server: RedisServer) -> None:
        """As a process leaves it that died between the two steps."""
        store = RedisStore(server.url)
        index = StateIndex(RedisEngine(parse_url(server.url)[0], pool=1, timeout=5), store.peek_state)
        await index.put([IndexedState(StateKey("ns", "chat", "s"))], 1_000)
        assert await store.list_states(StateQuery("ns", "s", 10)) == []
        assert await store.count_states("ns", "s") == 0
        await asyncio.sleep(0.01)
        await store.sweep_states(10)
        assert _entries(server) == []
        await store.close()


def _commands(server: RedisServer) -> dict[str, int]:
    stats: dict[str, dict[str, int]] = server.ask("INFO", "commandstats")
    return {name.removeprefix("cmdstat_"): used["calls"] for name, used in stats.items()}


def _entries(server: RedisServer) -> list[str]:
    buckets = [f"frontdesk:{{states-{number}}}:entries" for number in range(BUCKETS)]
    return [entry for bucket in buckets for entry in server.ask("ZRANGE", bucket, 0, -1) or []]


class TestRecordedStores:
    async def test_a_server_with_a_password_is_named_without_it_and_found_in_the_environment(
        self, server: RedisServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = server.url.replace("redis://", "redis://:open-sesame@")
        server.ask("CONFIG", "SET", "requirepass", "open-sesame")
        sessions = MemoryStore()
        ada = SessionKey("bot", "web", "ada")
        async with SessionManager(sessions) as manager:
            await manager.states(Counter, store=url).create("mail:ada", owner=ada)
        async with SessionManager(sessions) as manager:
            with pytest.raises(StateStoreMissingError) as raised:
                await manager.erase(key=ada)
            assert raised.value.url == server.url
            assert "open-sesame" not in repr(raised.value) + str(raised.value.details)
        monkeypatch.setenv("FRONTDESK_STATE_URL", url)
        async with SessionManager(sessions) as manager:
            assert (await manager.erase(key=ada)).states == 1

    async def test_a_server_without_a_password_is_reached(self, redis_url: str, redis_cluster_url: str) -> None:
        sessions, namespace, ada = MemoryStore(), new_id(), SessionKey("bot", "web", "ada")
        for url in (redis_url, redis_cluster_url):
            async with SessionManager(sessions, namespace=namespace) as manager:
                await manager.states(Counter, store=url).create("mail:ada", owner=ada)
        async with SessionManager(sessions, namespace=namespace) as manager:
            assert (await manager.erase(peer="ada")).states == 2


class TestFailures:
    async def test_a_server_that_cannot_be_reached_is_named(self) -> None:
        store = RedisStore("redis://ana:s3cret@127.0.0.1:9/2")
        with pytest.raises(
            StoreUnavailableError, match=r"^Redis at 127\.0\.0\.1:9/2 cannot be reached.*; nothing was written$"
        ) as caught:
            await store.open()
        await store.close()
        assert "s3cret" not in str(caught.value)

    async def test_a_server_that_is_down_is_not_a_missing_state(self, server: RedisServer) -> None:
        async with SessionManager("memory://") as manager:
            states = manager.states(Counter, store=f"{server.url}?timeout=1")
            patient = manager.states(Counter, store=server.url)
            await patient.create("chat")
            server.stop()
            with pytest.raises(StoreUnavailableError):
                await states.get("chat")
            with pytest.raises(StoreUnavailableError):
                await states.get_or_create("chat")
            with pytest.raises(StoreUnavailableError):
                await states.update("chat", add_one)
            with pytest.raises(StoreUnavailableError):
                await states.delete("chat")
            server.start()
            assert await patient.get_or_create("chat") == Counter()

    async def test_a_store_that_is_closed_while_it_connects_keeps_no_connection(self, server: RedisServer) -> None:
        for steps in range(40):
            store = RedisStore(server.url)
            calls = [asyncio.ensure_future(store.peek_state(StateKey("ns", "chat", str(n)))) for n in range(6)]
            for _ in range(steps):
                await asyncio.sleep(0)
            await store.close()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert all(end is None or isinstance(end, StoreClosedError) for end in ends)
        await eventually(lambda: server.ask("INFO")["connected_clients"] == 1)  # the one that asks

    async def test_a_restart_between_two_calls_causes_no_error(self, server: RedisServer) -> None:
        store = RedisStore(server.url)
        await store.create_state(StateKey("ns", "chat", "s"), StateWrite("{}", "m", None))
        server.restart()
        assert await store.create_state(StateKey("ns", "chat", "s"), StateWrite("{}", "n", None)), (
            "the scripts are loaded again"
        )
        await store.close()

    async def test_a_missing_password_is_an_error_that_shows_no_secret(self, server: RedisServer) -> None:
        server.ask("CONFIG", "SET", "requirepass", "right")
        for url in (server.url, server.url.replace("redis://", "redis://:wrong@")):
            store = RedisStore(url)
            with pytest.raises(StoreError, match="password") as raised:
                await store.get_state(StateKey("ns", "chat", "s"))
            assert "wrong" not in str(raised.value)
            await store.close()

    async def test_a_full_server_refuses_writes_and_keeps_its_states(self, server: RedisServer) -> None:
        store = RedisStore(server.url)
        key = StateKey("ns", "chat", "s")
        await store.create_state(key, StateWrite('"kept"', "m", None))
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreFullError):
            await store.replace_state(key, StateWrite("{}", "n", None), "m")
        server.ask("CONFIG", "SET", "maxmemory", "0")
        row = await store.get_state(key)
        assert row is not None
        assert row.value == '"kept"'
        await store.close()

    async def test_a_replica_says_that_it_is_one(self, server: RedisServer) -> None:
        server.ask("REPLICAOF", "127.0.0.1", server.port + 1)
        store = RedisStore(server.url)
        with pytest.raises(StoreReadOnlyError):
            await store.create_state(StateKey("ns", "chat", "s"), StateWrite("{}", "m", None))
        await store.close()

    async def test_more_callers_than_connections_wait_for_one(self, redis_url: str) -> None:
        store = RedisStore(f"{redis_url}?pool=2")
        key = StateKey(new_id(), "chat", "s")
        await store.create_state(key, StateWrite("{}", "m", None))
        assert all(await asyncio.gather(*(store.get_state(key) for _ in range(300))))
        await store.close()

    async def test_a_lost_reply_loses_nothing_and_counts_nothing_twice(self, redis_url: str) -> None:
        async with answers_lost(redis_url, 3) as url, SessionManager("memory://", namespace=new_id()) as manager:
            states = manager.states(Counter, store=url)
            await states.get_or_create("chat")
            for _ in range(10):
                await states.update("chat", add_one)
            assert await states.get("chat") == Counter(10)
            assert (await states.info("chat")).version == 11

    async def test_a_cancelled_call_is_cancelled_at_every_moment(self, redis_url: str) -> None:
        store = RedisStore(redis_url)
        await store.open()

        async def work() -> None:
            await store.open()
            await asyncio.Event().wait()

        for moments in range(15):
            task = asyncio.create_task(work())
            for _ in range(moments):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=PATIENCE)
            assert done, moments
        await store.close()


@asynccontextmanager
async def answers_lost(url: str, every: int) -> AsyncIterator[str]:
    """A proxy that cuts the connection instead of passing on the reply to every n-th script."""
    port = int(url.rpartition(":")[2].split("/")[0])
    scripts = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal scripts
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            while request := await reader.read(1 << 20):
                back.write(request)
                answer = await there.read(1 << 20)
                scripts += request.count(b"EVAL")
                if request.count(b"EVAL") and scripts % every == 0:
                    break
                writer.write(answer)
        finally:
            writer.close()
            back.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1")
    async with proxy:
        yield f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/0"


class TestCluster:
    async def test_a_state_is_found_while_its_slot_moves_to_another_node_and_after(self) -> None:
        key = StateKey("ns", "chat", "s")
        with RedisCluster() as cluster:
            store = RedisStore(cluster.url)
            await store.create_state(key, StateWrite('"here"', "m", HOUR))
            keys = ["frontdesk:{ns:chat}:state:s", "frontdesk:{ns:chat}:states"]
            slot = key_slot(keys[0].encode())
            here = next(node for node in cluster.primaries if node.ask("CLUSTER", "COUNTKEYSINSLOT", slot))
            there = next(node for node in cluster.primaries if node is not here)
            names = {node: node.ask("CLUSTER", "MYID") for node in cluster.primaries}
            there.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[here])
            here.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[there])
            assert await store.get_state(key)
            here.ask("MIGRATE", "127.0.0.1", there.port, "", 0, 5000, "KEYS", *keys)
            row = await store.replace_state(key, StateWrite('"on its way"', "n", HOUR), "m")
            assert row is not None
            assert row.version == 2
            for node in (there, here, *(node for node in cluster.primaries if node not in (here, there))):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[there])
            found = await store.get_state(key)
            assert found is not None
            assert found.value == '"on its way"'
            assert await store.delete_states("ns", "chat") == 1
            await store.close()

    async def test_nodes_that_send_a_caller_to_each_other_are_asked_until_they_agree(self) -> None:
        key = StateKey("ns", "chat", "s")
        slot = key_slot(b"frontdesk:{ns:chat}:state:s")
        with RedisCluster() as cluster:
            here = next(node for node in cluster.primaries if _serves(node, slot))
            there = next(node for node in cluster.primaries if node is not here)
            # It answers ASK for keys that it does not have; the other one does not expect them yet, and answers MOVED.
            here.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", there.ask("CLUSTER", "MYID"))
            hasty, patient = RedisStore(f"{cluster.url}?timeout=1"), RedisStore(cluster.url)
            with pytest.raises(StoreUnavailableError, match="nothing was written") as raised:
                await hasty.replace_state(key, StateWrite("{}", "m", None), "m")
            assert not raised.value.uncertain
            creating = asyncio.ensure_future(patient.create_state(key, StateWrite('"there"', "m", HOUR)))
            await asyncio.sleep(1)
            assert not creating.done()
            # Now it answers TRYAGAIN: a script needs all its keys in one place.
            there.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", here.ask("CLUSTER", "MYID"))
            await asyncio.sleep(1)
            assert not creating.done()
            for node in (there, here):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", there.ask("CLUSTER", "MYID"))
            assert await creating
            assert there.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 2
            await hasty.close()
            await patient.close()

    async def test_a_cluster_that_loses_a_primary_keeps_every_state(self) -> None:
        with RedisCluster() as cluster:
            async with SessionManager("memory://") as manager:
                states = manager.states(Counter, store=cluster.url)
                ids = [f"chat{number}" for number in range(30)]
                await asyncio.gather(*(states.create(id) for id in ids))
                await asyncio.gather(*(states.update(id, add_one) for id in ids))
                await asyncio.to_thread(cluster.settle)
                cluster.kill_primary()
                counters = await asyncio.gather(*(states.update(id, add_one) for id in ids))
                assert counters == [Counter(2)] * len(ids)
                assert await asyncio.gather(*(states.get(id) for id in ids)) == counters
                assert all(await asyncio.gather(*(states.delete(id) for id in ids)))


def _serves(node: RedisServer, slot: int) -> bool:
    """Whether the slots of a primary include this one."""
    mine = next(line for line in node.ask("CLUSTER", "NODES").splitlines() if "myself" in line)
    ranges = [part.partition("-") for part in mine.split()[8:]]
    return any(int(first) <= slot <= int(last or first) for first, _, last in ranges)
