"""`FrontdeskSaver` against the conformance kit of LangGraph, and in graphs that run on it."""

from __future__ import annotations

import asyncio
import operator
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from frontdesk import BlobRange, SessionKey, SessionManager, ShelfRead, Shelves
from frontdesk.errors import InvalidInputError
from frontdesk.integrations.langgraph import FrontdeskSaver

SECRET = "the-word-that-must-go"


async def test_it_passes_the_conformance_kit_with_all_capabilities(store_url: str) -> None:
    @checkpointer_test(name="FrontdeskSaver")
    async def saver() -> AsyncIterator[FrontdeskSaver]:
        async with SessionManager(store_url) as manager:
            yield FrontdeskSaver(manager)

    report = await validate(saver)
    assert {name for name, result in report.results.items() if result.passed} == {each.value for each in Capability}
    assert [failure for result in report.results.values() for failure in result.failures] == []
    assert sum(result.tests_passed for result in report.results.values()) == 81


def config_of(thread: str, **values: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **values}}


def graph(saver: FrontdeskSaver, *nodes: Any, state: Any = MessagesState) -> Any:
    builder = StateGraph(state)
    for node in nodes:
        builder.add_node(node.__name__, node)
    for before, after in zip([START, *(node.__name__ for node in nodes)], [*nodes, None], strict=True):
        builder.add_edge(before, after.__name__ if after else END)
    return builder.compile(checkpointer=saver)


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}


def texts(values: Any) -> list[str]:
    return [message.text for message in values["messages"]]


async def checkpointed(saver: FrontdeskSaver, config: RunnableConfig) -> Checkpoint:
    found = await saver.aget_tuple(config)
    assert found is not None
    return found.checkpoint


async def stored(saver: FrontdeskSaver, config: RunnableConfig) -> Any:
    return (await checkpointed(saver, config))["channel_values"]


# graphs


async def test_a_conversation_continues_in_another_process(store_url: str, tmp_path: Path) -> None:
    async with SessionManager(store_url) as manager:
        await graph(FrontdeskSaver(manager), answer).ainvoke({"messages": [HumanMessage("one")]}, config_of("t"))
        again = FrontdeskSaver(manager)  # knows nothing of what the first one has stored
        values = await graph(again, answer).ainvoke({"messages": [HumanMessage("two")]}, config_of("t"))
        assert texts(values) == ["one", "answer 1", "two", "answer 3"]
        assert texts(await stored(FrontdeskSaver(manager), config_of("t"))) == texts(values)


def test_the_same_without_an_event_loop(store_url: str) -> None:
    with FrontdeskSaver(SessionManager(store_url)) as saver:
        chat = graph(saver, answer)
        chat.invoke({"messages": [HumanMessage("one")]}, config_of("t"))
        chat.invoke({"messages": [HumanMessage("two")]}, config_of("t"))
        states = [*chat.get_state_history(config_of("t"))]
        assert texts(states[0].values) == ["one", "answer 1", "two", "answer 3"]
        assert [len(texts(state.values)) for state in states] == [4, 3, 2, 2, 1, 0]
        assert len([*saver.list(config_of("t"), limit=2)]) == 2
        saver.copy_thread("t", "copy")
        saver.prune(["copy"])
        assert len([*saver.list(config_of("copy"))]) == 1
        assert texts(chat.get_state(config_of("copy")).values) == texts(states[0].values)
        saver.delete_thread("t")
        assert [*saver.list(config_of("t"))] == []


async def test_a_graph_that_was_interrupted_goes_on_with_the_answer(manager: SessionManager) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"booked for {interrupt('how many?')}")]}

    chat = graph(FrontdeskSaver(manager), answer, ask)
    paused = await chat.ainvoke({"messages": [HumanMessage("a table")]}, config_of("t"))
    assert [each.value for each in paused["__interrupt__"]] == ["how many?"]
    other = graph(FrontdeskSaver(manager), answer, ask)
    values = await other.ainvoke(Command(resume="two"), config_of("t"))
    assert texts(values) == ["a table", "answer 1", "booked for two"]


async def test_branches_from_an_earlier_checkpoint_are_kept_apart(manager: SessionManager) -> None:
    chat = graph(FrontdeskSaver(manager), answer)
    for word in ("one", "two", "three"):
        await chat.ainvoke({"messages": [HumanMessage(word)]}, config_of("t"))
    history = [state async for state in chat.aget_state_history(config_of("t"))]
    first = next(state for state in history if len(texts(state.values)) == 2 and not state.next)
    branches = [
        await graph(FrontdeskSaver(manager), answer).ainvoke({"messages": [HumanMessage(word)]}, first.config)
        for word in ("left", "right")
    ]
    assert [texts(each)[2] for each in branches] == ["left", "right"]
    longest = max(history, key=lambda state: len(texts(state.values)))
    main = await stored(FrontdeskSaver(manager), longest.config)
    assert texts(main) == ["one", "answer 1", "two", "answer 3", "three", "answer 5"]
    assert texts(await stored(FrontdeskSaver(manager), config_of("t"))) == ["one", "answer 1", "right", "answer 3"]


async def test_messages_are_edited_and_removed_anywhere_in_the_list(manager: SessionManager) -> None:
    def edit(state: MessagesState) -> dict[str, Any]:
        first, second, third, *_ = state["messages"]
        edited = HumanMessage("edited", id=second.id)
        return {"messages": [RemoveMessage(id=first.id or ""), edited, AIMessage("end"), RemoveMessage(third.id or "")]}

    given = [HumanMessage(f"m{n}", id=f"m{n}") for n in range(6)]
    values = await graph(FrontdeskSaver(manager), edit).ainvoke({"messages": given}, config_of("t"))
    assert texts(values) == ["edited", "m3", "m4", "m5", "end"]
    assert texts(await stored(FrontdeskSaver(manager), config_of("t"))) == texts(values)


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
async def test_a_message_that_a_node_changes_and_returns_is_stored(manager: SessionManager, durability: Any) -> None:
    def change(state: MessagesState) -> dict[str, Any]:
        message = state["messages"][1]
        assert isinstance(message, AIMessage)
        message.tool_calls[0]["args"]["to"] = "Lima"
        return {"messages": [message]}

    call = {"name": "travel", "args": {"to": "Quito"}, "id": "c1"}
    given: list[AnyMessage] = [
        HumanMessage("go"),
        AIMessage("", tool_calls=[call], id="a"),
        ToolMessage("done", tool_call_id="c1"),
        HumanMessage("thanks"),
    ]
    for messages in (given, [HumanMessage("again")]):
        chat = graph(FrontdeskSaver(manager), answer, change)
        values = await chat.ainvoke({"messages": messages}, config_of("t"), durability=durability)
        assert values["messages"][1].tool_calls[0]["args"] == {"to": "Lima"}
        loaded = await stored(FrontdeskSaver(manager), config_of("t"))
        assert loaded["messages"] == values["messages"]


def extend(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(word for write in writes for word in write)]


class Words(TypedDict):
    words: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=3)]


async def test_delta_channels_survive_pruning(manager: SessionManager) -> None:
    def count(state: Words) -> dict[str, Any]:
        return {"words": [f"{len(state['words'])}"]}

    saver = FrontdeskSaver(manager)
    words = graph(saver, count, state=Words)
    before: list[str] = []
    for turn in range(5):
        before = (await words.ainvoke({"words": [f"turn {turn}"]}, config_of("t")))["words"]
        await saver.aprune(["t"])
        assert (await words.aget_state(config_of("t"))).values["words"] == before
    assert len(before) == 10
    assert len([each async for each in saver.alist(config_of("t"))]) < 9


# what is stored


def message(number: int) -> AnyMessage:
    kind = AIMessage if number % 2 else HumanMessage
    return kind(f"message {number}: {'word ' * 60}", id=str(number))


class Steps:
    """Steps of a thread, as LangGraph makes them: the writes of a task, then the next checkpoint."""

    def __init__(self, saver: FrontdeskSaver, thread: str, count: int) -> None:
        self.saver = saver
        self.config = config_of(thread)
        self.messages = [message(number) for number in range(count)]
        self.step = 0

    async def put(self, **values: Any) -> RunnableConfig:
        self.step += 1
        values = {"messages": self.messages, **values}
        versions: dict[str, str | int | float] = dict.fromkeys(values, self.step)
        checkpoint: Checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=self.step)),
            "channel_values": values,
            "channel_versions": versions,
        }
        metadata: Any = {"source": "loop", "step": self.step, "run_id": f"run {self.step}"}
        self.config = await self.saver.aput(self.config, checkpoint, metadata, versions)
        return self.config

    async def take(self) -> None:
        new = message(len(self.messages))
        await self.saver.aput_writes(self.config, [("messages", [new])], f"task {self.step}")
        self.messages = [*self.messages, new]
        await self.put()


def count_elements(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM blobs WHERE substr(key, 1, 1) = x'65'").fetchall()
        assert isinstance(count, int)
        return count


async def test_a_step_costs_the_same_in_a_long_thread(tmp_path: Path) -> None:
    async def cpu(steps: Steps) -> float:
        start = time.process_time()
        for _ in range(10):
            await steps.take()
        return time.process_time() - start

    async with SessionManager(f"sqlite:///{tmp_path}/agents.db") as manager:
        short, long = (Steps(FrontdeskSaver(manager), f"{count}", count) for count in (100, 10_000))
        for steps in (short, long):
            await steps.put()
            await cpu(steps)
        costs = [(await cpu(short), await cpu(long)) for _ in range(12)]
        assert min(cost for _, cost in costs) < 2 * min(cost for cost, _ in costs)
        assert await stored(FrontdeskSaver(manager), long.config) == {"messages": long.messages}


async def test_the_file_grows_by_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    steps = Steps(FrontdeskSaver(SessionManager("memory://")), "t", 10_000)
    sizes = []
    for count in (1, 50):
        async with SessionManager(f"sqlite:///{path}") as manager:
            steps.saver = FrontdeskSaver(manager)  # as in another process: it knows nothing of the thread
            await steps.put()
            for _ in range(count):
                await steps.take()
        sizes.append(path.stat().st_size)
    once = len(message(0).text)
    assert sizes[0] > 10_000 * once
    assert sizes[1] - sizes[0] < 10 * 50 * once  # each with its write and its checkpoint, and pages that are not full


async def test_messages_that_are_made_again_with_the_same_contents_are_not_stored_again(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        steps = Steps(FrontdeskSaver(manager), "t", 200)
        await steps.put()
        for _ in range(5):
            steps.messages = [each.model_copy(deep=True) for each in steps.messages]
            await steps.take()
        assert await stored(FrontdeskSaver(manager), config_of("t")) == {"messages": steps.messages}
    assert count_elements(path) == 205


async def test_processes_that_write_to_one_thread_do_not_mix_up_their_elements(manager: SessionManager) -> None:
    common = Steps(FrontdeskSaver(manager), "t", 3)
    await common.put()
    writers = []
    for name in "abcd":
        steps = Steps(FrontdeskSaver(manager), "t", 3)
        steps.config, steps.step = common.config, ord(name) * 1000
        writers.append((name, steps))

    async def write(name: str, steps: Steps) -> None:
        for number in range(5):
            steps.messages = [*steps.messages, HumanMessage(f"{name}{number}", id=f"{name}{number}")]
            await steps.put()

    await asyncio.gather(*(write(*each) for each in writers))
    for name, steps in writers:
        found = texts(await stored(FrontdeskSaver(manager), steps.config))
        assert found[3:] == [f"{name}{number}" for number in range(5)]
        assert found[:3] == texts({"messages": common.messages})


async def test_what_was_deleted_by_another_process_is_stored_again(manager: SessionManager) -> None:
    steps, other = Steps(FrontdeskSaver(manager), "t", 20), FrontdeskSaver(manager)
    await steps.put()
    await other.adelete_thread("t")
    await steps.take()
    assert await stored(other, config_of("t")) == {"messages": steps.messages}
    await other.aprune(["t"], strategy="delete")
    await steps.put()
    assert await stored(other, config_of("t")) == {"messages": steps.messages}


class Interrupted:
    """Shelves that do something else between the first read and the second."""

    def __init__(self, shelves: Shelves, between: Callable[[], Awaitable[None]]) -> None:
        self._shelves = shelves
        self._between = between
        self.reads = 0

    async def read(self, id: str, *ranges: BlobRange) -> ShelfRead:
        self.reads += 1
        if self.reads == 2:
            await self._between()
        return await self._shelves.read(id, *ranges)


async def test_a_thread_is_loaded_again_if_another_process_prunes_it_meanwhile(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(FrontdeskSaver(manager), "t", 3)
    await steps.put()

    async def replace_and_prune() -> None:
        steps.messages = [HumanMessage("other"), HumanMessage("messages")]
        await steps.put()
        await steps.saver.aprune(["t"])

    shelves = Interrupted(manager.shelves("langgraph"), replace_and_prune)
    monkeypatch.setattr(manager, "shelves", lambda name: shelves)
    found = await stored(FrontdeskSaver(manager), config_of("t"))
    assert texts(found) == ["other", "messages"]
    assert shelves.reads > 2


async def test_pruning_removes_what_no_checkpoint_needs_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        steps = Steps(FrontdeskSaver(manager), "t", 10)
        await steps.put(note=f"{SECRET} {'long ' * 500}", kept="long " * 500)
        steps.messages = [*steps.messages[:4], HumanMessage(SECRET), *steps.messages[4:]]
        await steps.put(note="short", kept="long " * 500)
        steps.messages = [each for each in steps.messages if each.text != SECRET]
        for _ in range(3):
            await steps.take()
        before = await stored(FrontdeskSaver(manager), config_of("t"))
        await steps.saver.aprune(["t"])
        assert await stored(FrontdeskSaver(manager), config_of("t")) == before == {"messages": steps.messages}
        await steps.take()
        assert await stored(FrontdeskSaver(manager), config_of("t")) == {"messages": steps.messages}
    assert SECRET.encode() not in path.read_bytes()
    assert count_elements(path) == 14


async def test_deleting_a_run_keeps_the_others_readable(manager: SessionManager) -> None:
    steps = Steps(FrontdeskSaver(manager), "t", 4)
    await steps.put()
    for _ in range(3):
        await steps.take()
    other = Steps(FrontdeskSaver(manager), "u", 4)
    await other.put()
    await FrontdeskSaver(manager).adelete_for_runs(["run 2", "run 3", "run 9"])
    left = [each async for each in FrontdeskSaver(manager).alist(config_of("t"))]
    assert [each.metadata["run_id"] for each in left] == ["run 4", "run 1"]
    assert [len(each.checkpoint["channel_values"]["messages"]) for each in left] == [7, 4]
    assert left[0].checkpoint["channel_values"]["messages"] == steps.messages
    assert await stored(steps.saver, config_of("u")) == {"messages": other.messages}
    await steps.take()
    assert await stored(FrontdeskSaver(manager), config_of("t")) == {"messages": steps.messages}


async def test_a_deleted_thread_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        saver = FrontdeskSaver(manager)
        await graph(saver, answer).ainvoke({"messages": [HumanMessage(SECRET)]}, config_of("t"))
        assert SECRET in str(await stored(saver, config_of("t")))
        await saver.adelete_thread("t")
        assert await saver.aget_tuple(config_of("t")) is None
    assert SECRET.encode() not in path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        for table in ("shelves", "blobs"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


async def test_erasing_a_guest_erases_their_threads(manager: SessionManager) -> None:
    ana, ben = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")
    owners = {"4711": ana, "4712": ben}
    saver = FrontdeskSaver(manager, owner=lambda thread: owners.get(thread))
    by_key = FrontdeskSaver(manager)
    for thread in owners:
        await graph(saver, answer).ainvoke({"messages": [HumanMessage("hi")]}, config_of(thread))
    for thread in (str(ana), str(ben), "not a key"):
        await graph(by_key, answer).ainvoke({"messages": [HumanMessage("hi")]}, config_of(thread))
    report = await manager.erase(key=ana)
    assert report.shelves == 2
    left = {each.config["configurable"]["thread_id"] async for each in by_key.alist(None)}
    assert left == {"4712", str(ben), "not a key"}


async def test_threads_of_other_namespaces_are_not_seen(store_url: str) -> None:
    async with SessionManager(store_url) as here, SessionManager(store_url, namespace="there") as there:
        await graph(FrontdeskSaver(here), answer).ainvoke({"messages": [HumanMessage("hi")]}, config_of("t"))
        assert await FrontdeskSaver(there).aget_tuple(config_of("t")) is None
        assert [each async for each in FrontdeskSaver(there).alist(None)] == []


async def test_an_encrypting_serializer_leaves_no_words_in_the_file(tmp_path: Path) -> None:
    class Reversing:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "reversed", plaintext[::-1]

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return ciphertext[::-1]

    path = tmp_path / "agents.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        saver = FrontdeskSaver(manager, serde=EncryptedSerializer(Reversing()))
        values = await graph(saver, answer).ainvoke({"messages": [HumanMessage(SECRET)]}, config_of("t"))
        assert texts(await stored(saver, config_of("t"))) == texts(values)
    assert SECRET.encode() not in path.read_bytes()
    assert SECRET[::-1].encode() in path.read_bytes()


async def test_lists_of_every_kind_come_back_as_they_were(manager: SessionManager) -> None:
    class Kinds(TypedDict):
        numbers: Annotated[list[float], operator.add]
        mixed: Annotated[list[Any], operator.add]
        empty: list[str]

    def add(state: Kinds) -> dict[str, Any]:
        return {"numbers": [0.5] * 1000, "mixed": [None, {"a": [1]}, "x"], "empty": []}

    saver, values = FrontdeskSaver(manager), {}
    for _ in range(3):
        values = await graph(saver, add, state=Kinds).ainvoke({"mixed": [{"b": {2}}]}, config_of("t"))
        found = await stored(FrontdeskSaver(manager), config_of("t"))
        assert {name: found[name] for name in values} == values
    assert len(values["mixed"]) == 12
    assert len(values["numbers"]) == 3000


async def test_checkpoints_of_all_threads_are_listed_with_filters(manager: SessionManager) -> None:
    saver = FrontdeskSaver(manager)
    for thread in ("t", "u"):
        steps = Steps(saver, thread, 1)
        for _ in range(25):
            await steps.put()
    found = [each async for each in saver.alist(None, filter={"step": 7})]
    assert [each.config["configurable"]["thread_id"] for each in found] == ["t", "u"]
    newest = [each async for each in saver.alist(config_of("u"), limit=24)]
    assert [each.metadata["step"] for each in newest] == [*range(25, 1, -1)]
    older = [each async for each in saver.alist(config_of("u"), before=newest[-1].config)]
    assert [each.metadata["step"] for each in older] == [1]
    with pytest.raises(InvalidInputError, match="keep_latest or delete"):
        await saver.aprune(["t"], strategy="everything")
