"""`FrontdeskStore`: long-term memory of graphs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, Item, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from frontdesk import SessionKey, SessionManager
from frontdesk.errors import InvalidInputError
from frontdesk.integrations.langgraph import FrontdeskStore
from frontdesk.states.shelves import BlobRange, ShelfRead, Shelves

ANA = SessionKey("concierge", "web", "ana")
BEN = SessionKey("concierge", "web", "ben")
FACTS = {
    "tea": {"text": "Ana drinks green tea in the morning", "rating": 4},
    "seat": {"text": "She prefers seats at the window", "rating": 5, "travel": {"class": "first"}},
    "allergy": {"text": "花生过敏", "rating": 5},
}


async def fill(store: Any, namespace: tuple[str, ...] = ("memories", "ana")) -> None:
    for key, value in FACTS.items():
        await store.aput(namespace, key, value)


async def test_items_come_back_as_they_were_put(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    value = {"text": "é🦊\u2028", "big": 2**60, "nested": {"list": [1, 1.5, None, True, {"a": []}]}, "": ""}
    await store.aput(("a", "b"), "k.: /é", value)
    first = await store.aget(("a", "b"), "k.: /é")
    assert first is not None
    assert (first.value, first.key, first.namespace) == (value, "k.: /é", ("a", "b"))
    await store.aput(("a", "b"), "k.: /é", {"other": 1})
    again = await FrontdeskStore(manager).aget(("a", "b"), "k.: /é")
    assert again is not None
    assert again.value == {"other": 1}
    assert again.created_at == first.created_at < again.updated_at
    assert await store.aget(("a",), "k.: /é") is None
    assert await store.aget(("a", "b"), "missing") is None
    await store.adelete(("a", "b"), "k.: /é")
    await store.adelete(("a", "b"), "missing")
    await store.adelete(("nowhere",), "missing")
    assert await store.aget(("a", "b"), "k.: /é") is None


async def test_a_query_finds_items_by_their_words_in_any_script(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    await fill(store)
    await store.aput(("memories", "ana"), "secret", {"text": "green tea"}, index=False)
    await store.aput(("memories", "ana"), "note", {"text": "green tea", "title": "harbour"}, index=["title"])
    await store.aput(("memories", "anabel"), "tea", {"text": "Anabel drinks green tea"})
    found = await store.asearch(("memories", "ana"), query="which tea does she drink?")
    assert [item.key for item in found] == ["tea"]
    assert found[0].score is not None
    assert found[0].score > 0
    assert [item.key for item in await store.asearch(("memories", "ana"), query="过敏")] == ["allergy"]
    assert [item.key for item in await store.asearch(("memories",), query="harbour")] == ["note"]
    assert {item.namespace[1] for item in await store.asearch(("memories",), query="green tea")} == {"ana", "anabel"}
    assert await store.asearch(("memories", "ana"), query="submarine") == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"green tea"', ["tea"]),
        ("green -tea", ["paint"]),
        ("morn*", ["tea"]),
        ("paint window", ["paint", "seat"]),
        ("-window", []),
        ("é" * 600, []),
    ],
)
async def test_queries_have_phrases_exclusions_and_prefixes(
    manager: SessionManager, query: str, found: list[str]
) -> None:
    store = FrontdeskStore(manager)
    await fill(store)
    await store.aput(("memories", "ana"), "paint", {"text": "The paint of paint shop windows is green"})
    assert [item.key for item in await store.asearch(("memories", "ana"), query=query)] == found


async def test_a_query_finds_what_an_item_says_now(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    identifier = "order_" + "x" * 500 + "é"
    await store.aput(("a",), "k", {"text": f"green tea {identifier}"})
    await store.aput(("a",), "k", {"text": f"black coffee {identifier}"})
    await store.aput(("a",), "other", {"text": "green paint"})
    assert [item.key for item in await store.asearch(("a",), query="green")] == ["other"]
    assert [item.key for item in await store.asearch(("a",), query=f"coffee {identifier}")] == ["k"]
    await store.adelete(("a",), "k")
    assert await store.asearch(("a",), query="coffee") == []


async def test_a_deleted_item_leaves_no_trace_of_its_words(manager: SessionManager) -> None:
    store, shelves = FrontdeskStore(manager), manager.shelves("langgraph-store")
    await store.aput(("a",), "k", {"text": "green tea"})
    await store.aput(("a",), "k", {"text": "tea of the secret garden"})
    await store.adelete(("a",), "k")
    (left,) = (await shelves.read("a", BlobRange(b"\0", b"\xff"))).found
    assert [blob.key for blob in left] == [b"s"]


@pytest.mark.parametrize("size", [20, 600])
async def test_a_search_reads_what_it_finds_and_not_the_whole_namespace(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    store, read = FrontdeskStore(manager), 0
    await store.abatch([PutOp(("a",), str(n), {"text": f"A note on the weather of day {n}"}) for n in range(size)])
    await fill(store, ("a",))
    plain = Shelves.read

    async def count(self: Shelves, id: str, *ranges: BlobRange) -> ShelfRead:
        nonlocal read
        found = await plain(self, id, *ranges)
        read += sum(map(len, found.found))
        return found

    monkeypatch.setattr(Shelves, "read", count)
    assert [item.key for item in await store.asearch(("a",), query="green tea")] == ["tea"]
    assert read <= 4  # the sums, two words and the item
    read = 0
    newest = await store.asearch(("a",), limit=3)
    assert [item.key for item in newest] == ["allergy", "seat", "tea"]
    assert read <= 100  # a page of the newest


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"rating": 5},
        {"rating": {"$gt": 4}},
        {"rating": {"$gte": 4, "$lt": 5}},
        {"rating": {"$ne": 5}},
        {"rating": {"$lte": 4.5}},
        {"travel": {"class": "first"}},
        {"travel": {"class": "second"}},
        {"text": {"$eq": "花生过敏"}, "rating": 5},
    ],
)
async def test_filters_select_what_those_of_langgraph_select(manager: SessionManager, wanted: Any) -> None:
    ours, theirs = FrontdeskStore(manager), InMemoryStore()
    for store in (ours, theirs):
        await fill(store)
    found, expected = [
        sorted(item.key for item in await store.asearch(("memories",), filter=wanted)) for store in (ours, theirs)
    ]
    assert found == expected


async def test_an_unknown_operator_is_an_error_and_a_missing_value_is_not(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    await fill(store)
    assert await store.asearch(("memories",), filter={"age": {"$gt": 3}}) == []
    with pytest.raises(ValueError, match="unknown operator"):
        await store.asearch(("memories",), filter={"rating": {"$near": 3}})


async def test_without_a_query_the_items_changed_last_come_first_in_pages(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    for number in range(7):
        await store.aput(("n", str(number % 2)), str(number), {"number": number})
    await store.aput(("n", "0"), "2", {"number": 9})
    pages = [await store.asearch(("n",), limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert [[item.key for item in page] for page in pages] == [["2", "6", "5"], ["4", "3", "1"], ["0"], []]


NAMESPACES = [("a",), ("a", "b"), ("a", "b", "c"), ("a", "x", "c"), ("ab", "c"), ("d", "a"), ("d", "b", "v1")]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"prefix": ("a",)},
        {"prefix": ("a", "*", "c")},
        {"suffix": ("c",)},
        {"suffix": ("*", "c"), "prefix": ("a",)},
        {"max_depth": 1},
        {"prefix": ("a",), "max_depth": 2, "limit": 2, "offset": 1},
        {"prefix": ("nothing",)},
    ],
)
async def test_namespaces_are_listed_as_langgraph_lists_them(manager: SessionManager, wanted: Any) -> None:
    ours, theirs = FrontdeskStore(manager), InMemoryStore()
    for store in (ours, theirs):
        for namespace in NAMESPACES:
            await store.aput(namespace, "k", {"v": 1})
    assert await ours.alist_namespaces(**wanted) == await theirs.alist_namespaces(**wanted)


async def test_a_namespace_without_items_is_not_listed(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    await store.aput(("a",), "k", {"v": 1})
    await store.adelete(("a",), "k")
    assert await store.alist_namespaces() == []


async def test_a_batch_reads_before_it_writes_and_the_last_write_counts(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    await store.aput(("a",), "k", {"v": 0})
    results = await store.abatch(
        [
            PutOp(("a",), "k", {"v": 1}),
            GetOp(("a",), "k"),
            PutOp(("a",), "gone", {"v": 1}),
            PutOp(("a",), "k", {"v": 2}),
            PutOp(("a",), "gone", None),
            SearchOp(("a",)),
        ]
    )
    read, found = results.pop(1), results.pop()
    assert results == [None] * 4
    assert isinstance(read, Item)
    assert read.value == {"v": 0}
    assert isinstance(found, list)
    assert [item.value for item in found if isinstance(item, Item)] == [{"v": 0}]
    assert [(item.key, item.value) for item in await store.asearch(("a",))] == [("k", {"v": 2})]


async def test_concurrent_writes_to_a_namespace_are_all_kept(store_url: str) -> None:
    async with SessionManager(store_url) as manager:
        stores = [FrontdeskStore(manager) for _ in range(4)]
        await asyncio.gather(*(stores[n % 4].aput(("a",), str(n), {"n": n}) for n in range(24)))
        assert len(await stores[0].asearch(("a",), limit=100)) == 24


async def test_what_cannot_be_stored_is_refused(manager: SessionManager) -> None:
    store = FrontdeskStore(manager)
    with pytest.raises(InvalidInputError, match="value"):
        await store.aput(("a",), "k", {"v": object()})
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("a.b",), "k", {"v": 1})])
    with pytest.raises(InvalidInputError, match="1000 bytes"):
        await store.aput(("a",), "k" * 1000, {"v": 1})
    with pytest.raises(InvalidInputError, match="half of a character"):
        await store.aput(("a",), "k\ud800", {"v": 1})
    with pytest.raises(NotImplementedError):
        await store.aput(("a",), "k", {"v": 1}, ttl=5)


async def test_erasing_a_guest_erases_their_memories(manager: SessionManager) -> None:
    by_key = FrontdeskStore(manager)
    by_name = FrontdeskStore(manager, owner=lambda namespace: SessionKey("concierge", "web", namespace[-1]))
    await fill(by_key, ("memories", str(ANA)))
    await fill(by_key, ("memories", str(BEN)))
    await fill(by_name, ("profile", "ana"))
    await fill(by_key, ("shared",))
    assert (await manager.erase(key=ANA)).shelves == 2
    assert await by_key.alist_namespaces() == [("memories", str(BEN)), ("shared",)]


async def test_namespaces_of_other_managers_are_not_seen(store_url: str) -> None:
    async with SessionManager(store_url) as here, SessionManager(store_url, namespace="there") as there:
        await fill(FrontdeskStore(here))
        assert await FrontdeskStore(there).alist_namespaces() == []
        assert await FrontdeskStore(there).asearch(()) == []


def test_a_graph_remembers_across_threads_without_an_event_loop(store_url: str) -> None:
    store = FrontdeskStore(SessionManager(store_url))

    def remember(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
        said = state["messages"][-1].text
        known = store.search(("memories", "ana"), query=said)
        store.put(("memories", "ana"), str(len(said)), {"text": said})
        return {"messages": [AIMessage(f"I know {len(known)}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    chat = builder.compile(store=store)
    chat.invoke({"messages": [HumanMessage("I live in Lima")]})
    values = chat.invoke({"messages": [HumanMessage("What is on in Lima?")]})
    assert values["messages"][-1].text == "I know 1"
    assert [item.value["text"] for item in store.search(("memories",))] == ["What is on in Lima?", "I live in Lima"]
    store.delete(("memories", "ana"), "14")
    assert store.get(("memories", "ana"), "14") is None
    assert store.list_namespaces() == [("memories", "ana")]
    store.close()
