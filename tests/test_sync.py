"""The API without an event loop: the same names and signatures, from any thread, in any process."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import sys
import threading
import time
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import frontdesk
from frontdesk import SessionKey, sync
from frontdesk.context import StoreSearch
from frontdesk.states.shelves import one
from frontdesk.store import TURN, Blob, Item, Piece, SessionQuery, SessionRow
from frontdesk.stores.memory import MemoryStore
from frontdesk.sync import Session, SessionManager, StandaloneSession, Tool
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
TWINS = [name for name in frontdesk.__all__ if getattr(sync, name) is not getattr(frontdesk, name)]
SPECIAL = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def public(kind: type) -> set[str]:
    names = {SPECIAL.get(name, name) for name in dir(kind)}
    return {name for name in names if name in SPECIAL.values() or not name.startswith("_")}


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


# the same API


def test_a_request_for_a_provider_is_prepared_and_tools_are_called() -> None:
    with SessionManager("memory://").with_context("memory").with_cached_prompt() as manager:
        session = manager.session("s")
        session.append(said("hi"))
        request = session.prepare("openai")
        assert [message["role"] for message in request["messages"]] == ["system", "user"]
        tool = session.tools()["update_context"]
        assert "missing" in tool.call("{}")
        assert "Written" in tool.call('{"label": "memory", "content": "Likes tea."}')
        assert "Likes tea." in str(session.prepare("anthropic", notes="user", alternate=True)["messages"])


def test_an_application_adds_a_tool_that_is_a_plain_function() -> None:
    with SessionManager("memory://") as manager:
        session = manager.session("s")
        session.append(said("hi"))
        clock = Tool("tell_time", "Tell the time.", {"type": "object", "properties": {}}, lambda: "noon")
        request = session.prepare("openai", tools={**session.tools(), clock.name: clock})
        assert [tool["function"]["name"] for tool in request["tools"]][-1] == "tell_time"
        assert clock() == "noon"


def test_search_tools_are_called_and_a_scope_is_a_plain_function() -> None:
    with SessionManager("memory://") as manager:
        ana, ben = (manager.session(SessionKey("bot", "web", peer)) for peer in ("ana", "ben"))
        ana.append(said("the lamp of ana"))
        ben.append(said("the lamp of ben"))
        assert "ben" not in ana.tools()["session_search"](query="lamp")
        assert "of ben" in ana.tools(scope=lambda info: info.key.peer == "ben")["session_search"](query="lamp")
        assert "of ben" in manager.tools(scope={"peer": "ben"})["search_sessions"].call('{"query": "lamp"}')


def test_it_has_every_name_of_the_package() -> None:
    assert sync.__all__ == frontdesk.__all__
    assert {"Session", "SessionManager"} <= set(TWINS)
    assert sync.Message is frontdesk.Message


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_has_the_same_methods_with_the_same_parameters_and_defaults(name: str) -> None:
    twin, source = getattr(sync, name), getattr(frontdesk, name)
    assert public(twin) == public(source)
    assert shape(twin) == shape(source)
    for method in public(source) & set(dir(source)):
        if callable(getattr(source, method)):
            assert shape(getattr(twin, method)) == shape(getattr(source, method)), method
            assert not inspect.iscoroutinefunction(getattr(twin, method)), method
            assert getattr(twin, method).__name__ == method


def test_signatures_have_plain_iterators_and_sync_classes() -> None:
    assert "AsyncIterator" not in str(inspect.signature(Session.transcript))
    assert inspect.signature(SessionManager.create).return_annotation is Session
    assert Session.append.__doc__ == frontdesk.Session.append.__doc__
    assert SessionManager.__doc__ is not None
    assert "async" not in SessionManager.__doc__


def parts(hint: Any) -> Iterator[Any]:
    """A type and all types in it, except those of callbacks, which run on the loop."""
    yield typing.get_origin(hint) or hint
    if typing.get_origin(hint) is not Callable:
        for part in typing.get_args(hint):
            yield from parts(part)


@pytest.mark.parametrize("kind", [sync.SessionManager, sync.Session])
def test_no_member_returns_something_async(kind: type) -> None:
    for name in public(kind):
        member = getattr(kind, name)
        assert not inspect.iscoroutinefunction(member)
        assert not inspect.isasyncgenfunction(member)
        if isinstance(member, property):
            continue
        for part in parts(inspect.signature(member).return_annotation):
            if isinstance(part, type) and not getattr(part, "_is_protocol", False):
                assert not issubclass(part, Awaitable | AsyncIterator | AbstractAsyncContextManager), name
                methods = [getattr(part, each, None) for each in public(part)]
                assert not any(inspect.iscoroutinefunction(each) for each in methods), (name, part)
                assert not any(inspect.isasyncgenfunction(each) for each in methods), (name, part)


def test_a_generic_class_takes_its_type_in_annotations_that_are_evaluated() -> None:
    assert typing.get_origin(inspect.signature(SessionManager.states).return_annotation) is sync.States
    assert typing.get_args(sync.States[Any]) == (Any,)


def test_shelves_are_read_and_written_without_an_event_loop() -> None:
    with sync.SessionManager("memory://") as manager:
        shelves = manager.shelves("checkpoints")
        assert isinstance(shelves, sync.Shelves)
        shelves.write("t", put={b"k": b"v"})
        assert shelves.read("t", one(b"k")).found == [[Blob(b"k", b"v")]]
        assert list(shelves.ids()) == ["t"]
        assert shelves.delete("t")


def test_the_stub_is_current() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "sync_stub.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# using it


def test_a_conversation_needs_no_event_loop() -> None:
    with SessionManager("memory://") as manager:
        session = manager.session("a")
        assert session.append(said("one")).inserted
        session.append_all([said("two"), said("three")])
        assert [message.text for message in session.history()] == ["one", "two", "three"]
        assert [message.text for message in session.transcript()] == ["one", "two", "three"]
        assert [info.id for info in manager.iterate()] == ["a"]
        assert session.info().message_count == 3


def test_sessions_that_calls_return_are_sync_too() -> None:
    with SessionManager("memory://") as manager:
        made = manager.create("first", id="a")
        made.append(said("one"))
        fork = manager.fork("a", new_id="b")
        for session in (made, fork, manager.get_or_create("a"), manager.session("a")):
            assert type(session) is Session
        assert [message.text for message in fork.history()] == ["one"]
        assert repr(fork) == "Session('b', namespace='default')"


def test_new_sessions_follow_one_another_in_turns_too() -> None:
    with SessionManager("memory://") as manager:
        key = SessionKey("bot", "web", "ana")
        with manager.session(key).turn() as turn:
            with pytest.raises(frontdesk.TurnBusyError):
                manager.new(key, on_busy="reject")
            following = turn.new()
            assert isinstance(following, sync.Turn)
            following.append(said("in the new session"))
        assert manager.new(key).history() == []
        infos = list(manager.iterate(metadata={}, id_prefix=""))
        assert [info.message_count for info in infos] == [0, 1, 0]
        assert manager.erase(key=key).sessions == 3


def test_a_thread_does_not_wait_for_a_turn_that_it_has_itself() -> None:
    with SessionManager("memory://") as manager:
        key = SessionKey("bot", "web", "ana")
        session = manager.session(key)
        with session.turn() as turn:
            with pytest.raises(frontdesk.InvalidInputError, match="would wait for itself"):
                manager.new(key)
            with pytest.raises(frontdesk.InvalidInputError, match="would wait for itself"), session.turn():
                pass
            with ThreadPoolExecutor(1) as other, turn.turn() as same:
                assert same.append(said("a turn in a turn is the same one")).inserted
                with pytest.raises(frontdesk.TurnBusyError):
                    other.submit(lambda: manager.new(key, wait=0.01)).result()


def test_the_builder_returns_the_sync_class_for_chaining() -> None:
    manager = SessionManager("memory://")
    assert manager.with_token_counter(len) is manager
    with Session.create("memory://").for_session("z").with_token_counter(len) as session:
        assert type(session) is StandaloneSession
        assert session.append(said("one")).message.tokens >= len("one")
        assert session.id == "z"
    manager.close()


def test_a_subclass_keeps_its_type() -> None:
    class Mine(SessionManager):
        pass

    with Mine("memory://").with_token_counter(len) as manager:
        assert type(manager) is Mine


def test_closing_twice_is_fine_and_later_use_is_an_error() -> None:
    manager = SessionManager("memory://")
    manager.close()
    manager.close()
    with pytest.raises(frontdesk.StoreClosedError):
        manager.stats()


def test_errors_pass_through_with_their_type_and_fields() -> None:
    with SessionManager("memory://") as manager:
        session = manager.session("a")
        session.append(said("one", id="m1"))
        with pytest.raises(frontdesk.HeadMovedError) as caught:
            session.append(said("two"), expected_head="elsewhere")
        assert caught.value.head == "m1"
        with pytest.raises(frontdesk.MessageNotFoundError):
            list(session.transcript(leaf="nowhere"))


def test_an_error_in_a_callback_is_raised_to_the_caller_even_if_it_is_an_exit() -> None:
    def leave(text: str) -> int:
        raise SystemExit(3)

    with SessionManager("memory://").with_token_counter(leave) as manager, pytest.raises(SystemExit):
        manager.append("a", said("one"))
    with SessionManager("memory://") as manager:
        assert manager.append("a", said("the loop goes on")).inserted


def test_a_callback_that_calls_the_sync_api_on_its_own_loop_is_refused() -> None:
    with SessionManager("memory://") as other:

        def count(text: str) -> int:
            return other.stats().messages

        manager = SessionManager("memory://").with_token_counter(count)
        with manager, pytest.raises(frontdesk.ConfigurationError, match="own event loop"):
            manager.append("a", said("one"))


def test_a_sync_hook_may_use_the_sync_api() -> None:
    seen: list[tuple[str, str, int]] = []

    with SessionManager("memory://") as manager:

        class Hook:
            def on_session_end(self, session: frontdesk.Session, reason: str) -> None:
                seen.append((session.id, reason, len(manager.history(session.id))))

        manager.register_hook(Hook())
        manager.append("a", said("one"))
        manager.archive("a")
        assert manager.stats().hook_failures == 0
    assert seen == [("a", "archive", 1)]


def test_a_sync_manager_sweeps_in_the_background_and_stops() -> None:
    ended = threading.Event()

    class Hook:
        def on_session_end(self, session: frontdesk.Session, reason: str) -> None:
            ended.set()

    soon = timedelta(milliseconds=20)
    manager = SessionManager("memory://").with_lifecycle(archive_after=soon, every=soon)
    manager.register_hook(Hook())
    with manager:
        manager.append("a", said("one"))
        assert ended.wait(PATIENCE)


# iterators


class CountingStore(MemoryStore):
    """Counts the batches of messages that are read, and never returns a second page of sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.cancelled = threading.Event()

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        self.reads += 1
        return await super().read(items)

    async def page(self, query: SessionQuery) -> list[SessionRow]:
        if query.after is not None:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return await super().page(query)


def test_iterators_do_not_read_much_further_than_they_are_consumed() -> None:
    store = CountingStore()
    with SessionManager(store) as manager:
        manager.append_all("long", (said(str(number)) for number in range(5000)))
        iterator = manager.session("long").transcript()
        assert store.reads == 0
        assert next(iterator).text == "0"
        early = store.reads
        assert [message.text for message in iterator] == [str(number) for number in range(1, 5000)]
        assert early <= 2 < store.reads


def test_an_iterator_returns_what_has_arrived_and_stops_reading_when_abandoned() -> None:
    store = CountingStore()
    with SessionManager(store) as manager:
        for _ in range(5):
            manager.create()
        iterator = manager.iterate(limit=2)
        assert [type(next(iterator)) for _ in range(2)] == [frontdesk.SessionInfo] * 2
        del iterator
        assert store.cancelled.wait(10)


def test_events_are_a_plain_iterator_that_ends_when_the_manager_is_closed() -> None:
    manager = SessionManager("memory://")
    seen: list[str | None] = []
    arrived = threading.Event()

    def follow() -> None:
        for event in manager.events(after="start"):
            seen.append(event.message_id)
            arrived.set()

    thread = threading.Thread(target=follow)
    thread.start()
    manager.session("a").append(said("one", id="m1"))
    assert arrived.wait(30)
    assert [event.message_id for event in manager.events(after="start", follow=False)] == [None, "m1"]
    manager.close()
    thread.join(30)
    assert not thread.is_alive()
    assert seen == [None, "m1"]


def test_a_transcript_can_be_appended_elsewhere_while_it_streams() -> None:
    with SessionManager("memory://") as manager:
        manager.session("a").append_all([said("one"), said("two")])
        manager.session("b").append_all(message.raw for message in manager.session("a").transcript())
        assert [message.text for message in manager.history("b")] == ["one", "two"]


# threads, loops, processes, signals


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_eight_threads_append_at_once_and_nothing_is_lost(kind: str, tmp_path: Path) -> None:
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/threads.db"
    with SessionManager(url) as manager, ThreadPoolExecutor(8) as threads:

        def work(number: int) -> None:
            for turn in range(25):
                manager.append("shared", said(f"{number}.{turn}"))

        list(threads.map(work, range(8)))
        texts = [message.text for message in manager.session("shared").transcript()]
        assert sorted(texts) == sorted(f"{number}.{turn}" for number in range(8) for turn in range(25))
        assert manager.session("shared").info().message_count == 200


def test_threads_take_turns_and_a_turn_is_renewed_while_its_thread_is_busy() -> None:
    store = MemoryStore()
    manager = SessionManager(store)
    renewed = threading.Event()

    def expires_at() -> int:
        [held] = asyncio.run(store.held_leases("default", TURN))
        return held.lease.expires_at

    def work(n: int) -> None:
        with manager.session("chat").turn(ttl=6, wait=PATIENCE) as turn:
            assert isinstance(turn, Session)
            before = [message.id for message in turn.transcript()]
            turn.append(said("asked", id=f"q{n}"))
            first_end = expires_at()
            while not renewed.is_set() and expires_at() == first_end:
                time.sleep(0.01)
            renewed.set()
            turn.append(said("answered", id=f"a{n}"))
            assert [message.id for message in turn.transcript()] == [*before, f"q{n}", f"a{n}"]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert len(list(manager.session("chat").transcript())) == 8
    manager.close()


def test_a_message_is_queued_for_the_turn_of_another_thread() -> None:
    with SessionManager("memory://") as manager:
        session = manager.session("chat")
        with session.turn() as turn:
            with session.turn(on_busy="queue", message=said("and this?", id="b")) as other:
                assert other is None
            with pytest.raises(sync.TurnBusyError), session.turn(on_busy="reject"):
                pass
            message = turn.take_queued()
            assert message is not None
            assert message.id == "b"
            assert turn.take_queued() is None
            with session.turn(on_busy="interrupt"), pytest.raises(sync.TurnLostError):
                turn.append(said("late"))
            assert turn.interrupted


async def test_it_works_in_a_thread_that_runs_its_own_event_loop() -> None:
    with SessionManager("memory://") as manager:
        manager.append("a", said("one"))
        assert [message.text for message in manager.session("a").transcript()] == ["one"]


FORK = """
import os
from frontdesk.sync import SessionManager
message = {"role": "user", "content": "hello"}
with SessionManager("memory://") as manager:
    manager.append("a", message)
    child = os.fork()
    if child == 0:
        with SessionManager("memory://") as own:
            own.append("b", message)
            os._exit(7 if len(list(own.session("b").transcript())) == 1 else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    manager.append("a", message)
    print(len(manager.history("a")))
"""


def test_after_a_fork_parent_and_child_both_work() -> None:
    done = run_script(FORK)
    assert (done.stdout.split(), done.stderr) == (["7", "2"], "")


HANG = """
import asyncio, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from frontdesk.stores.memory import MemoryStore
from frontdesk.sync import SessionManager
cancelled = threading.Event()
class Hanging(MemoryStore):
    async def append(self, request):
        print("waiting", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
try:
    SessionManager(Hanging()).append("a", {"role": "user", "content": "hello"})
except KeyboardInterrupt:
    print("interrupted", cancelled.wait(10))
"""


def test_ctrl_c_cancels_a_call_that_waits_and_is_raised_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", HANG], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE)
    assert rest == "interrupted True\n"
    assert process.returncode == 0


def test_guarded_writes_work_without_an_event_loop() -> None:
    with SessionManager("memory://") as manager:
        session = manager.session("a")
        session.append_all([{**said("one"), "id": "m1"}, {**said("two"), "id": "m2"}], expected_head=None)
        with pytest.raises(sync.HeadMovedError):
            session.pop(expected_head="m1")
        popped = session.pop(expected_head="m2")
        assert popped is not None
        assert popped.text == "two"
        session.switch(None, expected_head="m1")
        assert session.history() == []
        assert session.switch("m1", expected_head=None).id == "m1"
        replaced = session.replace_messages([{**said("one"), "id": "m1"}, said("more")], expected_head="m1")
        assert [message.text for message in replaced] == ["one", "more"]
        session.clear_messages(expected_head=replaced[-1].id)
        assert session.pop() is None
        item = session.append([1, 2], role="user", text="numbers")
        assert item.message.raw == [1, 2]
        assert manager.append("a", {"any": None}, id="i1", role="user").message.id == "i1"


def test_hooks_are_passed_the_sync_session() -> None:
    seen: list[Any] = []

    class Hook:
        def on_message(self, session: Session, message: frontdesk.Message) -> None:
            seen.append((type(session), session.id, [each.id for each in session.history()], message.id))

        async def on_session_start(self, session: frontdesk.Session) -> None:
            seen.append((type(session), (await session.info()).id))

        def on_session_end(self, session: Session, reason: str) -> None:
            session.set_metadata(reason=reason)

    hook, other = Hook(), Hook()
    with SessionManager("memory://") as manager:
        manager.register_hook(hook=hook)
        with pytest.raises(frontdesk.ConfigurationError, match="already registered"):
            manager.register_hook(hook, timeout=2)
        assert not manager.unregister_hook(other)
        manager.append("chat", {"id": "m1", "role": "user", "content": "Hi"})
        manager.archive("chat")
        assert seen == [(frontdesk.Session, "chat"), (Session, "chat", ["m1"], "m1")]
        assert manager.session("chat").info().metadata == {"reason": "archive"}
        assert manager.stats().hook_failures == 0
        assert manager.unregister_hook(hook)
        with pytest.raises(frontdesk.ConfigurationError, match="object has none"):
            manager.register_hook(object())


def test_blocks_of_a_guest_and_forks_under_a_key_work_without_an_event_loop() -> None:
    ana, ben = SessionKey("bot", "web", "ana"), SessionKey("bot", "web", "ben")
    desk = sync.SessionManager("memory://").with_context("memory", scope="guest").with_cached_prompt()
    with desk.with_context("facts", provider=StoreSearch(scope="guest")) as manager:
        session = manager.session(ana)
        for text in ("tea", "tea and cake"):
            session.replace_context_block("memory", text)
        assert "cake" in manager.new(ana).freeze_system_prompt()
        session.forget_block_history("memory")
        assert len(session.block_history("memory")) == 1
        session.tools()["update_context"](label="facts", title="safe", content="4711")
        assert session.remove_context_entry("facts", "safe")
        assert manager.fork(ana, key=ben).context_block("memory").content == ""
        assert manager.fork(ana).context_block("memory").content == "tea and cake"


def test_events_start_at_a_position_check_their_arguments_and_can_be_ended() -> None:
    with SessionManager("memory://") as manager:
        manager.append("chat", {"id": "m1", "role": "user", "content": "Hi"})
        events = manager.events(after=manager.position(), session="chat")
        manager.append("chat", {"id": "m2", "role": "user", "content": "Again"})
        assert next(events).message_id == "m2"
        with pytest.raises(frontdesk.InvalidCursorError):
            manager.events(after="wrong")
        threading.Timer(0.05, manager.end_events).start()
        assert list(events) == []
        assert manager.usage(session="chat", by=["model"]).rows == ()
