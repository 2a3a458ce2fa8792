"""Random histories of sessions, compared after every step with a model in plain Python that copies and walks lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from frontdesk import FOLLOW_HEAD, Compaction, InvalidRangeError, Session, SessionManager, Store
from frontdesk.messages import SUMMARY_PREFIX, new_id
from tests.public_api.steps import path

T = TypeVar("T")
WORDS = ("amber", "birch", "cedar")


@dataclass(eq=False)
class Node:
    """A message of the model; deleting one moves its children to its parent."""

    id: str
    role: str
    text: str
    parent: Node | None


@dataclass(eq=False)
class Cover:
    """An overlay of the model: the remaining messages of its range, in order."""

    id: str
    summary: str | None
    nodes: list[Node]
    stale: bool = False


@dataclass(eq=False)
class Conversation:
    """One session of the model."""

    nodes: list[Node] = field(default_factory=list)
    covers: list[Cover] = field(default_factory=list)
    head: Node | None = None

    def find(self, message_id: str) -> Node | None:
        return next((node for node in self.nodes if node.id == message_id), None)

    def path(self, leaf: Node | None) -> list[Node]:
        way: list[Node] = []
        while leaf is not None:
            way.append(leaf)
            leaf = leaf.parent
        return way[::-1]

    def view(self, leaf: Node | None) -> list[str]:
        """The ids in the view. Newer overlays win over older ones that they overlap."""
        shown: list[Node | Cover] = list(self.path(leaf))
        taken: set[Node] = set()
        for cover in reversed(self.covers):
            if all(node in shown for node in cover.nodes) and not taken & set(cover.nodes):
                taken |= set(cover.nodes)
                start = shown.index(cover.nodes[0])
                shown[start : start + len(cover.nodes)] = [cover]
        visible = [item for item in shown if not isinstance(item, Cover) or item.summary is not None]
        return [SUMMARY_PREFIX + item.id if isinstance(item, Cover) else item.id for item in visible]

    def append(self, parent: Node | None, message_id: str, role: str, text: str) -> None:
        if self.find(message_id) is None:
            self.head = Node(message_id, role, text, parent)
            self.nodes.append(self.head)

    def update(self, node: Node, text: str) -> None:
        if text != node.text:
            node.text = text
            self._mark(node)

    def delete(self, node: Node) -> None:
        self.nodes.remove(node)
        for child in self.nodes:
            if child.parent is node:
                child.parent = node.parent
        if self.head is node:
            self.head = node.parent
        self._mark(node)
        for cover in self.covers:
            if node in cover.nodes:
                cover.nodes.remove(node)
                cover.summary = None
        self.covers = [cover for cover in self.covers if cover.nodes]

    def _mark(self, node: Node) -> None:
        for cover in self.covers:
            cover.stale = cover.stale or node in cover.nodes

    def fork(self, at: Node | None) -> Conversation:
        copies: dict[Node, Node] = {}
        for node in self.path(at):
            copies[node] = Node(node.id, node.role, node.text, None if node.parent is None else copies[node.parent])
        covers = [
            Cover(cover.id, cover.summary, [copies[node] for node in cover.nodes], cover.stale)
            for cover in self.covers
            if all(node in copies for node in cover.nodes)
        ]
        return Conversation(list(copies.values()), covers, None if at is None else copies[at])

    def leaves(self) -> set[str]:
        inner = {node.parent for node in self.nodes}
        return {node.id for node in self.nodes if node not in inner}


choice = st.integers(0, 1 << 16)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


class SessionMachine(RuleBasedStateMachine):
    """Runs in its own thread; its calls of the store run on the event loop of the test."""

    store: Store
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.manager = SessionManager(self.store, namespace=f"model-{new_id()}")
        self.model: dict[str, Conversation] = {"s0": Conversation()}
        self.touched: set[str] = set()
        self.serial = 0

    def run(self, work: Awaitable[T]) -> T:
        async def done() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result()

    def pick(self, number: int) -> tuple[Session, Conversation]:
        names = sorted(self.model)
        name = names[number % len(names)]
        self.touched.add(name)
        return self.manager.session(name), self.model[name]

    def pick_with_nodes(self, number: int) -> tuple[Session, Conversation]:
        names = sorted(name for name in self.model if self.model[name].nodes)
        name = names[number % len(names)]
        self.touched.add(name)
        return self.manager.session(name), self.model[name]

    def any_nodes(self) -> bool:
        return any(conversation.nodes for conversation in self.model.values())

    @rule(number=choice, parent=choice, how=st.sampled_from(["head", "head", "head", "root", "node"]), text=texts)
    def append(self, number: int, parent: int, how: str, text: str) -> None:
        session, model = self.pick(number)
        below = model.head
        if how == "root":
            below = None
        elif how == "node" and model.nodes:
            below = model.nodes[parent % len(model.nodes)]
        # A deleted id may be used again and an existing id may be repeated: with few ids both happen.
        message_id = f"m{self.serial % 11}"
        self.serial += 1
        role = "system" if how == "root" and parent % 3 == 0 else "user"
        where = FOLLOW_HEAD if how == "head" else None if below is None else below.id
        known = model.find(message_id)
        appended = self.run(session.append({"id": message_id, "role": role, "content": text}, parent=where))
        assert appended.inserted is (known is None)
        assert appended.message.text == (text if known is None else known.text)
        model.append(below, message_id, role, text)

    @rule(number=choice, many=st.integers(1, 5), text=texts)
    def append_several(self, number: int, many: int, text: str) -> None:
        session, model = self.pick(number)
        names = [f"b{self.serial + offset}" for offset in range(many)]
        self.serial += many
        self.run(session.append_all([{"id": name, "role": "user", "content": text} for name in names]))
        for name in names:
            model.append(model.head, name, "user", text)

    @precondition(any_nodes)
    @rule(number=choice, which=choice, text=texts)
    def update(self, number: int, which: int, text: str) -> None:
        session, model = self.pick_with_nodes(number)
        node = model.nodes[which % len(model.nodes)]
        self.run(session.update_message({"id": node.id, "role": node.role, "content": text}))
        model.update(node, text)

    @precondition(any_nodes)
    @rule(number=choice, which=st.lists(choice, min_size=1, max_size=3))
    def delete(self, number: int, which: list[int]) -> None:
        session, model = self.pick_with_nodes(number)
        nodes = list(dict.fromkeys(model.nodes[index % len(model.nodes)] for index in which))
        assert self.run(session.delete_messages(node.id for node in nodes)) == len(nodes)
        for node in nodes:
            model.delete(node)

    @precondition(any_nodes)
    @rule(number=choice, which=choice)
    def switch(self, number: int, which: int) -> None:
        session, model = self.pick_with_nodes(number)
        expected = None if model.head is None else model.head.id
        model.head = None if which % 7 == 0 else model.nodes[which % len(model.nodes)]
        self.run(session.switch(None if model.head is None else model.head.id, expected_head=expected))

    @precondition(any_nodes)
    @rule(number=choice, kept=choice, many=st.integers(0, 3), text=texts)
    def replace_messages(self, number: int, kept: int, many: int, text: str) -> None:
        """Hand over the beginning of the list as it is, and then other messages, some of them under ids that were
        used."""
        session, model = self.pick_with_nodes(number)
        way = model.path(model.head)
        way = way[: kept % (len(way) + 1)]
        given = [{"id": node.id, "role": node.role, "content": node.text} for node in way]
        ids = [f"m{(self.serial + offset) % 11}" for offset in range(many)]
        self.serial += many
        new = [id for id in ids if all(node.id != id for node in way)]
        messages = [*given, *({"id": id, "role": "user", "content": text} for id in new)]
        expected = None if model.head is None else model.head.id
        same = len(way)
        for node in model.path(model.head)[same : same + len(new)]:
            if (node.id, node.role, node.text) != (new[same - len(way)], "user", text):
                break
            same += 1
        self.run(session.replace_messages(messages, expected_head=expected))
        staying = model.path(model.head)[:same]
        removed = [node for node in model.nodes if node not in staying]
        model.covers = [cover for cover in model.covers if not set(cover.nodes) & set(removed)]
        model.nodes, model.head = list(staying), staying[-1] if staying else None
        for id in new[same - len(way) :]:
            model.append(model.head, id, "user", text)

    @precondition(any_nodes)
    @rule(number=choice)
    def pop(self, number: int) -> None:
        session, model = self.pick_with_nodes(number)
        head = model.head
        popped = self.run(session.pop())
        assert (None if popped is None else popped.id) == (None if head is None else head.id)
        if head is not None:
            model.delete(head)

    @precondition(any_nodes)
    @rule(number=choice, which=choice, start=choice, text=texts)
    def compact(self, number: int, which: int, start: int, text: str) -> None:
        session, model = self.pick_with_nodes(number)
        way = model.path(model.nodes[which % len(model.nodes)])
        lead = next((index for index, node in enumerate(way) if node.role != "system"), len(way))
        first = start % len(way)
        work = session.add_compaction(text, way[first].id, way[-1].id)
        if lead == len(way):
            with pytest.raises(InvalidRangeError):
                self.run(work)
            return
        made = Cover(self.run(work).id, text, way[max(first, lead) :])
        is_replaced = [cover.summary is None and set(cover.nodes) <= set(made.nodes) for cover in model.covers]
        model.covers = [cover for cover, gone in zip(model.covers, is_replaced, strict=True) if not gone]
        model.covers.append(made)

    @precondition(lambda self: any(model.covers for model in self.model.values()))
    @rule(number=choice, which=choice)
    def undo(self, number: int, which: int) -> None:
        names = sorted(name for name in self.model if self.model[name].covers)
        name = names[number % len(names)]
        self.touched.add(name)
        cover = self.model[name].covers.pop(which % len(self.model[name].covers))
        self.run(self.manager.session(name).undo_compaction(cover.id))

    @precondition(lambda self: self.any_nodes() and len(self.model) < 6)
    @rule(number=choice, which=choice, at_head=st.booleans())
    def fork(self, number: int, which: int, at_head: bool) -> None:
        session, model = self.pick_with_nodes(number)
        at = None if at_head else model.nodes[which % len(model.nodes)]
        self.serial += 1
        name = f"f{self.serial}"
        self.run(self.manager.fork(session.id, None if at is None else at.id, new_id=name))
        self.model[name] = model.fork(model.head if at is None else at)
        self.touched.add(name)

    @precondition(any_nodes)
    @rule(number=choice)
    def clear(self, number: int) -> None:
        session, model = self.pick_with_nodes(number)
        self.run(session.clear_messages())
        model.nodes, model.covers, model.head = [], [], None

    @precondition(lambda self: len(self.model) > 1)
    @rule(number=choice)
    def delete_session(self, number: int) -> None:
        name = sorted(self.model)[number % len(self.model)]
        self.touched = set(self.model) - {name}
        known = self.run(self.manager.get(name)) is not None
        assert self.run(self.manager.delete(name)) is known
        del self.model[name]

    @rule(word=st.sampled_from(WORDS))
    def search(self, word: str) -> None:
        wanted = {node.id for model in self.model.values() for node in model.nodes if word in node.text.split()}
        hits = self.run(self.manager.search(word, limit=1000))
        assert {hit.message_id for hit in hits if hit.kind == "message"} == wanted
        for name, model in self.model.items():
            hits = self.run(self.manager.session(name).search(word, limit=1000))
            assert sorted(hit.message_id for hit in hits if hit.kind == "message") == sorted(
                node.id for node in model.nodes if word in node.text.split()
            )

    @rule()
    def look_at_everything(self) -> None:
        """Includes the sessions that the last steps should not have changed."""
        for name in self.model:
            self.run(self.compare(name))

    @invariant()
    def what_changed_reads_as_the_model_says(self) -> None:
        for name in sorted(self.touched & set(self.model)):
            self.run(self.compare(name))
        self.touched.clear()

    async def compare(self, name: str) -> None:
        session, model = self.manager.session(name), self.model[name]
        history = await session.history()
        assert [message.id for message in history] == model.view(model.head)
        for message in history:
            node = model.find(message.id)
            if node is not None:
                assert message.text == node.text
                assert message.parent_id == (None if node.parent is None else node.parent.id)
        head = await session.head()
        assert (None if head is None else head.id) == (None if model.head is None else model.head.id)
        assert await path(session) == [node.id for node in model.path(model.head)]
        await self.compare_branches(session, model)
        assert [_described(compaction) for compaction in await session.compactions()] == [
            (cover.id, cover.summary, cover.nodes[0].id, cover.nodes[-1].id, cover.stale) for cover in model.covers
        ]
        info = await self.manager.get(name)
        if info is not None:
            assert info.message_count == len(model.nodes)
            assert info.compaction_count == len(model.covers)
            assert info.token_count == sum(message.tokens for message in history)

    async def compare_branches(self, session: Session, model: Conversation) -> None:
        leaves = await session.leaves()
        assert {leaf.id for leaf in leaves} == model.leaves()
        for leaf in leaves:
            node = model.find(leaf.id)
            assert [message.id for message in await session.history(leaf=leaf.id)] == model.view(node)
            assert await session.path_length(leaf.id) == len(model.path(node))
        roots = await session.branches(None)
        assert {root.id for root in roots} == {node.id for node in model.nodes if node.parent is None}


def _described(compaction: Compaction) -> tuple[Any, ...]:
    return compaction.id, compaction.summary, compaction.from_id, compaction.to_id, compaction.stale


async def run_model(store: Store, *, examples: int, steps: int) -> None:
    """Run the machine on a store, with a namespace for each example."""
    bound = type("BoundMachine", (SessionMachine,), {"store": store, "loop": asyncio.get_running_loop()})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    await asyncio.to_thread(run_state_machine_as_test, bound, settings=chosen)


class RandomHistoryTests:
    examples: ClassVar[int] = 25
    """How many short histories to run."""
    long_examples: ClassVar[int] = 2000
    """How many long histories to run: a store on which a step takes longer may run fewer."""

    async def test_a_random_history_matches_the_naive_model(self, store: Store) -> None:
        await run_model(store, examples=self.examples, steps=25)

    @pytest.mark.long
    async def test_many_long_random_histories_match_the_naive_model(self, store: Store) -> None:
        await run_model(store, examples=self.long_examples, steps=60)
