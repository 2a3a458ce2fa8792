"""Every kind of bad input is refused with a typed error and nothing is written, and any odd id is a valid id; on all
stores."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from frontdesk import (
    ConfigurationError,
    FrontdeskError,
    HeadMovedError,
    InvalidCursorError,
    InvalidIdError,
    InvalidInputError,
    InvalidKeyError,
    InvalidMessageError,
    MessageNotFoundError,
    MessageTooLargeError,
    Session,
    SessionKey,
    SessionManager,
    StoreURLError,
)
from frontdesk.messages import new_id
from frontdesk.store import Store
from frontdesk.stores import open_url
from tests.servers.postgres import PostgresServer

BAD_IDS = {
    "empty": "",
    "too long": "x" * 513,
    "with NUL": "nul\0inside",
    "with a lone surrogate": "lone \ud800",
    "a number": 7,
    "bytes": b"bytes",
}
HOSTILE_IDS = [
    "../../x",
    "a:b",
    "a%",
    "a_b",
    "a*",
    "'; drop table messages; --",
    '"quoted"',
    "back\\slash",
    "new\nline",
    " ",
    "a ",
    "a",
    "A",
    "ä",
    "a\u0308",
    "👩‍🚀🇺🇳",
    "漢" * 500,
    "x" * 512,
    "%s {} $1 ?",
    "null",
    "frontdesk",
]
BAD_MESSAGES: list[Any] = [
    {"role": 7, "content": "x"},
    {"role": None, "content": "x"},
    {"content": "x"},
    {"role": "", "content": "x"},
    {"role": "user", "content": {1, 2}},
    {"role": "user", "content": b"bytes"},
    {"role": "user", "content": "x", "extra": object()},
    {"role": "user", "content": "x", "extra": math.nan},
    {"role": "user", "content": "x", "extra": [math.inf]},
    {"role": "user", "content": "x", "extra": Decimal("1.5")},
    {"role": "user", "content": "x", "extra": datetime(2026, 1, 1, tzinfo=UTC)},
    {"role": "user", "content": "x", "extra": {(1,): "key is not a string"}},
    {"role": "user", "content": "x", "extra": (1, object())},
    {"role": "user", "content": "lone \udfff surrogate"},
    {"role": "user", "content": "x", "lone \udfff": 1},
    "a text",
    None,
    42,
    ["role", "user"],
]

Call = Callable[[SessionManager, Session], Awaitable[Any]]


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "postgres":
        url = request.getfixturevalue("database")
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/bad.db"}[request.param]
    store = open_url(url)
    yield store
    await store.close()


@pytest.fixture
async def manager(store: Store) -> SessionManager:
    """Two messages, one compaction, one other session."""
    manager = SessionManager(store, namespace=new_id())
    session = manager.session("chat")
    await session.append_all([{"id": name, "role": "user", "content": name} for name in ("m1", "m2", "m3")])
    await session.add_compaction("sum", "m1", "m2")
    await manager.append("other", {"id": "o1", "role": "user", "content": "o1"})
    return manager


async def everything(manager: SessionManager) -> list[Any]:
    infos = [info async for info in manager.iterate()]
    messages = [[message async for message in manager.session(info.id).transcript()] for info in infos]
    views = [await manager.history(info.id) for info in infos]
    return [infos, messages, views, await manager.usage(), (await manager.stats()).sessions]


async def refused(manager: SessionManager, error: type[FrontdeskError], *calls: Call) -> None:
    """Each call raises the error, and the store is unchanged."""
    before = await everything(manager)
    for call in calls:
        with pytest.raises(error):
            await call(manager, manager.session("chat"))
    assert await everything(manager) == before


def text(id: Any = None, content: str = "hello") -> dict[str, Any]:
    return {"id": id, "role": "user", "content": content}


async def read_all(session: Session, **options: Any) -> list[Any]:
    return [message async for message in session.transcript(**options)]


@pytest.mark.parametrize("bad", [*BAD_IDS.values(), None], ids=[*BAD_IDS, "None"])
async def test_a_bad_session_id_is_refused(manager: SessionManager, bad: Any) -> None:
    calls: list[Call] = [
        lambda m, s: m.append(bad, text()),
        lambda m, s: m.get(bad),
        lambda m, s: m.history(bad),
        lambda m, s: m.delete(bad),
        lambda m, s: m.fork(bad),
        lambda m, s: m.get_or_create(bad),
        lambda m, s: m.add_usage(bad, input_tokens=1),
    ]
    if bad is not None:
        calls += [lambda m, s: m.create(id=bad), lambda m, s: m.fork("chat", new_id=bad)]
        calls += [lambda m, s: m.create(parent=bad), lambda m, s: m.usage(session=bad)]
    await refused(manager, InvalidIdError, *calls)
    with pytest.raises(InvalidIdError):
        manager.session(bad)


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS)
async def test_a_bad_message_id_is_refused(manager: SessionManager, bad: Any) -> None:
    await refused(
        manager,
        InvalidInputError,
        lambda m, s: s.append(text(bad)),
        lambda m, s: s.append_all([text("fine"), text(bad)]),
        lambda m, s: s.upsert(text(bad)),
        lambda m, s: s.update_message(text(bad)),
        lambda m, s: s.append(text(), parent=bad),
        lambda m, s: s.append(text(), expected_head=bad),
        lambda m, s: s.delete_messages(["m1", bad]),
        lambda m, s: s.get_message(bad),
        lambda m, s: s.history(leaf=bad),
        lambda m, s: s.path_length(bad),
        lambda m, s: s.branches(bad),
        lambda m, s: s.switch(bad),
        lambda m, s: read_all(s, leaf=bad),
        lambda m, s: read_all(s, after=bad),
        lambda m, s: s.add_compaction("sum", bad, "m2"),
        lambda m, s: s.add_compaction("sum", "m1", bad),
        lambda m, s: m.fork("chat", bad),
        lambda m, s: m.append("never", text(), parent=bad),
        lambda m, s: m.history("never", leaf=bad),
    )


async def test_a_text_in_place_of_a_list_of_ids_is_refused(manager: SessionManager) -> None:
    await refused(manager, InvalidInputError, lambda m, s: s.delete_messages("m1"))


@pytest.mark.parametrize("bad", BAD_MESSAGES)
async def test_a_message_that_cannot_be_stored_is_refused(manager: SessionManager, bad: Any) -> None:
    given = {**bad, "id": "m2"} if isinstance(bad, dict) else bad
    await refused(
        manager,
        InvalidMessageError,
        lambda m, s: s.append(bad),
        lambda m, s: s.append_all([text("fine"), bad]),
        lambda m, s: m.append("new", bad),
        lambda m, s: s.upsert(given),
        lambda m, s: s.update_message(given),
    )


async def test_a_message_over_the_size_limit_is_refused(manager: SessionManager) -> None:
    await refused(manager, MessageTooLargeError, lambda m, s: s.append(text("big", "x" * (16 * 1024 * 1024))))
    small = SessionManager(manager._runtime.store, namespace=manager.namespace, max_message_bytes=1000)
    await refused(
        small,
        MessageTooLargeError,
        lambda m, s: s.append(text("big", "漢" * 400)),
        lambda m, s: s.update_message(text("m1", "x" * 1001)),
    )
    assert (await small.append("chat", text("fits", "x" * 900))).inserted


async def test_a_message_just_under_the_default_limit_comes_back(manager: SessionManager) -> None:
    large = text("large", "x" * (15 * 1024 * 1024))
    await manager.append("chat", large)
    assert (await manager.session("chat").get_message("large")).raw == large


@pytest.mark.parametrize("odd", [{}, [], {"a": []}, None, 7, True])
async def test_a_block_whose_type_is_no_text_is_legal_and_comes_back(manager: SessionManager, odd: Any) -> None:
    message = {"role": "user", "content": [{"type": odd, "text": "x"}, {"type": "data", "data": {"type": odd}}]}
    stored = (await manager.session("s").append(message)).message
    assert (await manager.session("s").get_message(stored.id)).raw == message


async def test_nul_in_a_text_is_legal_and_comes_back(manager: SessionManager) -> None:
    given = {"id": "nul", "role": "user", "content": "a\0b", "extra": {"k\0": ["\0"]}}
    await manager.append("chat", given)
    assert (await manager.session("chat").get_message("nul")).raw == given
    await manager.session("chat").update_message({**given, "content": "\0\0"})
    assert (await manager.session("chat").get_message("nul")).text == "\0\0"
    assert [hit.message_id for hit in await manager.search("m1")] == ["m1"]


async def test_a_parent_or_leaf_of_another_session_is_refused(manager: SessionManager) -> None:
    await refused(
        manager,
        MessageNotFoundError,
        lambda m, s: s.append(text(), parent="o1"),
        lambda m, s: s.append_all([text("x1"), text("x2")], parent="o1"),
        lambda m, s: m.append("never", text(), parent="o1"),
        lambda m, s: s.history(leaf="o1"),
        lambda m, s: m.history("never", leaf="o1"),
        lambda m, s: s.path_length("o1"),
        lambda m, s: s.switch("o1"),
        lambda m, s: s.branches("o1"),
        lambda m, s: s.get_message("o1"),
        lambda m, s: s.update_message(text("o1")),
        lambda m, s: read_all(s, leaf="o1"),
        lambda m, s: read_all(s, after="o1"),
        lambda m, s: s.add_compaction("sum", "m1", "o1"),
        lambda m, s: m.fork("chat", "o1"),
    )
    assert await manager.delete_messages("chat", ["o1"]) == 0
    assert await manager.get("never") is None


async def test_a_cursor_that_was_tampered_with_is_refused(manager: SessionManager) -> None:
    cursor = (await manager.list(limit=1)).next_cursor
    assert cursor is not None
    other = "B" if cursor[len(cursor) // 2] == "A" else "A"
    altered = cursor[: len(cursor) // 2] + other + cursor[len(cursor) // 2 + 1 :]
    for bad in ("", "x", cursor[:-2], cursor + "AAAA", altered, "💥", "\0", cursor.swapcase(), 7, b"bytes"):
        await refused(manager, InvalidCursorError, lambda m, s, bad=bad: m.list(limit=1, cursor=bad))  # type: ignore[misc]


@pytest.mark.parametrize("bad", [0, -1, 1.5, "1", True, math.nan])
async def test_a_limit_that_is_not_a_positive_number_is_refused(manager: SessionManager, bad: Any) -> None:
    await refused(
        manager,
        InvalidInputError,
        lambda m, s: m.list(limit=bad),
        lambda m, s: s.history(last=bad),
        lambda m, s: s.history(max_tokens=bad),
        lambda m, s: read_all(s, limit=bad),
        lambda m, s: s.search("x", limit=bad),
        lambda m, s: m.search("x", limit=bad),
        lambda m, s: m.create(max_tokens=bad),
    )


@pytest.mark.parametrize("bad", ["nul\0", "lone \udc00", 5])
async def test_text_that_no_store_can_hold_is_refused(manager: SessionManager, bad: Any) -> None:
    await refused(
        manager,
        InvalidInputError,
        lambda m, s: m.create(bad),
        lambda m, s: m.create(model=bad),
        lambda m, s: m.create(source=bad),
        lambda m, s: m.create(tags=[bad]),
        lambda m, s: m.rename("chat", bad),
        lambda m, s: m.fork("chat", name=bad),
        lambda m, s: s.rename(bad),
        lambda m, s: s.add_tags("fine", bad),
        lambda m, s: s.set_summary(bad),
        lambda m, s: s.add_compaction(bad, "m1", "m2"),
        lambda m, s: m.add_usage("chat", model=bad),
        lambda m, s: m.add_usage("chat", usage_id=bad),
        lambda m, s: m.list(tag=bad),
        lambda m, s: m.list(agent=bad),
        lambda m, s: m.list(channel=bad),
        lambda m, s: m.list(peer=bad),
        lambda m, s: m.list(thread=bad),
        lambda m, s: m.list(status=bad),
    )


@pytest.mark.parametrize("bad", [math.nan, object(), b"x", {(1,): 2}, "lone \ud800", {"x": math.inf}])
async def test_metadata_that_is_not_json_is_refused(manager: SessionManager, bad: Any) -> None:
    await refused(
        manager,
        InvalidInputError,
        lambda m, s: m.create(metadata={"k": bad}),
        lambda m, s: m.create(metadata=bad),
        lambda m, s: m.create(metadata={1: 2}),  # type: ignore[dict-item]
        lambda m, s: s.set_metadata(k=bad),
    )


async def test_other_invalid_arguments_are_refused(manager: SessionManager) -> None:
    await refused(
        manager,
        InvalidInputError,
        lambda m, s: s.add_compaction("", "m1", "m2"),
        lambda m, s: s.add_compaction(" \n", "m1", "m2"),
        lambda m, s: s.history(format="klingon"),  # type: ignore[call-overload]
        lambda m, s: s.search(7),  # type: ignore[arg-type]
        lambda m, s: m.list(status="asleep"),  # type: ignore[arg-type]
        lambda m, s: m.add_usage("chat", input_tokens=-1),
        lambda m, s: m.add_usage("chat", output_tokens=1.5),  # type: ignore[arg-type]
        lambda m, s: m.add_usage("chat", cost=-1),
        lambda m, s: m.add_usage("chat", cost=math.nan),
        lambda m, s: m.add_usage("chat", cost="many"),
        lambda m, s: m.add_usage("chat", cost=Decimal("Infinity")),
    )


@pytest.mark.parametrize(
    "url", ["", "nothing", "mysql://x/y", "memory://path", "sqlite:///x.db?nonsense=1", "http://x"]
)
def test_an_unknown_store_url_is_refused(url: str) -> None:
    with pytest.raises(StoreURLError):
        SessionManager(url)


@pytest.mark.parametrize(
    ("url", "advice"),
    [("agents.db", "write sqlite:///agents.db"), ("http://127.0.0.1:8080", r"frontdesk\.client\.Client")],
)
def test_the_likely_mistakes_in_a_store_url_are_explained(url: str, advice: str) -> None:
    with pytest.raises(StoreURLError, match=advice):
        SessionManager(url)


@pytest.mark.parametrize("bad", ["", "x" * 201, "nul\0", "\ud800"])
def test_a_bad_namespace_is_refused(bad: str) -> None:
    with pytest.raises(InvalidIdError, match=r"^namespace (must have 1 to 200|.* contains a)"):
        SessionManager("memory://", namespace=bad)


def test_a_size_limit_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        SessionManager("memory://", max_message_bytes=0)


@pytest.mark.parametrize("parts", [("", "b", "c"), ("a", "b", "x" * 513), ("a", "b\0", "c"), ("a", "b", "c", "")])
def test_a_bad_key_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidKeyError):
        SessionKey(*parts)


async def test_hostile_session_ids_are_valid_and_isolated(store: Store) -> None:
    manager = SessionManager(store, namespace=new_id())
    for number, name in enumerate(HOSTILE_IDS):
        session = await manager.create(name, id=name, tags=[name])
        await session.append(text("m1", f"text {number}"))
        await manager.add_usage(name, input_tokens=number + 1, usage_id=name)
    for number, name in enumerate(HOSTILE_IDS):
        assert [message.text for message in await manager.history(name)] == [f"text {number}"]
        assert [info.id for info in await manager.list(tag=name)] == [name]
        assert (await manager.usage(session=name)).total.input_tokens == number + 1
    assert await manager.delete(HOSTILE_IDS[0])
    assert {info.id async for info in manager.iterate(limit=4)} == set(HOSTILE_IDS[1:])


async def test_hostile_message_ids_are_valid_and_isolated(store: Store) -> None:
    session = SessionManager(store, namespace=new_id()).session("chat")
    for number, name in enumerate(HOSTILE_IDS):
        assert (await session.append(text(name, f"text {number}"))).inserted
        assert not (await session.append(text(name, "again"))).inserted
    assert [message.id for message in await session.history()] == HOSTILE_IDS
    for number, name in enumerate(HOSTILE_IDS):
        assert (await session.get_message(name)).text == f"text {number}"
        assert await session.path_length(name) == number + 1
    assert await session.delete_messages(["a%", "a_b", "a*"]) == 3
    assert [message.id for message in await session.history()] == [
        name for name in HOSTILE_IDS if name not in ("a%", "a_b", "a*")
    ]


async def test_hostile_namespaces_and_keys_are_valid_and_isolated(store: Store) -> None:
    prefix = new_id()
    names = [name[:150] for name in HOSTILE_IDS]
    for number, name in enumerate(names):
        manager = SessionManager(store, namespace=prefix + name)
        await manager.append(SessionKey(name, name, name, name), text("m1", f"text {number}"))
        await manager.append(SessionKey(name, name, name), text("m1", "other"))
    for number, name in enumerate(names):
        manager = SessionManager(store, namespace=prefix + name)
        assert [message.text for message in await manager.history(SessionKey(name, name, name, name))] == [
            f"text {number}"
        ]
        assert len(await manager.list(agent=name)) == 2
        assert len(await manager.list(thread=name)) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.list(created_after="2020-01-01"),
        lambda manager: manager.add_usage("chat", at="yesterday"),
        lambda manager: manager.add_usage("chat", input_tokens=True),
        lambda manager: manager.usage(since="monday"),
        lambda manager: manager.create(key="agent:web:ana"),
        lambda manager: manager.create(tags="abc"),
        lambda manager: manager.create(tags=None),
        lambda manager: manager.append_all("chat", None),
        lambda manager: manager.append_all("chat", {"role": "user", "content": "alone"}),
        lambda manager: manager.delete_messages("chat", "m1"),
        lambda manager: manager.delete_messages("chat", 5),
        lambda manager: manager.delete_messages("chat", [[]]),
        lambda manager: manager.search("x", limit=None),
        lambda manager: manager.session("chat").search("x", limit=None),
        lambda manager: manager.session("chat").prepare(["openai"]),
        lambda manager: manager.session("chat").prepare("openai", tools=None),
        lambda manager: manager.session("chat").prepare("openai", tools=["search"]),
        lambda manager: manager.session("chat").prepare("openai", tools={"search": {"name": "search"}}),
        lambda manager: manager.session("chat").context_usage(tools=None),
        lambda manager: manager.session("chat").context_usage(tools=[object()]),
        lambda manager: manager.session("chat").context_usage(tools=[{"name": "lone \ud800"}]),
        lambda manager: manager.session("chat").compact(instructions=7),
        lambda manager: manager.session("chat").compact(prompt=["in", "parts"]),
        lambda manager: manager.session("chat").on_overflow("context_length_exceeded"),
        lambda manager: manager.session("chat").turn(ttl=2**70).__aenter__(),
        lambda manager: manager.session("chat").turn(wait=2**70).__aenter__(),
    ],
)
async def test_arguments_of_the_wrong_kind_are_a_typed_error(
    store: Store, call: Callable[[SessionManager], Awaitable[Any]]
) -> None:
    manager = SessionManager(store, namespace=new_id())
    await manager.append("chat", text("m1", "hello"))
    with pytest.raises(InvalidInputError):
        await call(manager)
    assert [info.message_count async for info in manager.iterate()] == [1]


@pytest.mark.parametrize("nonsense", [None, 5, b"memory://", object()])
def test_an_object_that_is_not_a_store_is_refused_at_once(nonsense: Any) -> None:
    with pytest.raises(ConfigurationError):
        SessionManager(nonsense)


async def test_an_append_that_is_refused_under_a_key_leaves_no_session_behind(store: Store) -> None:
    manager = SessionManager(store, namespace=new_id())
    key = SessionKey("agent", "web", "ana")
    with pytest.raises(MessageNotFoundError):
        await manager.session(key).append(text("m1", "x"), parent="nowhere")
    with pytest.raises(HeadMovedError):
        await manager.session(key).append(text("m1", "x"), expected_head="nowhere")
    assert await manager.get(key) is None


async def test_a_leaf_under_a_key_without_a_session_is_not_found(store: Store) -> None:
    session = SessionManager(store, namespace=new_id()).session(SessionKey("agent", "web", "ana"))
    for options in ({}, {"last": 3}, {"max_tokens": 1_000}, {"format": "openai"}):
        with pytest.raises(MessageNotFoundError):
            await session.history(leaf="nowhere", **options)


async def test_a_counter_that_returns_absurd_numbers_is_refused(store: Store) -> None:
    manager = SessionManager(store, namespace=new_id()).with_token_counter(lambda text: 10**30)
    with pytest.raises(ConfigurationError):
        await manager.append("chat", text("m1", "x"))
    assert await manager.get("chat") is None
