"""Random histories: changes are planned as in the session layer, and after each step every session in the store must
look exactly like its `conversation_model`."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count as counter
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from frontdesk.errors import InvalidRangeError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import FOLLOW_HEAD, Append, FollowHead, Item, NewOverlay, NewSession, Place, Plan, Store
from frontdesk.testing.inputs import StoredText
from frontdesk.testing.store_contract.conversation_model import Conversation, Kind, Shown
from frontdesk.testing.store_contract.steps import tokens_at
from frontdesk.tree import edits, forks, plans, sharing
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree, whole_view

T = TypeVar("T")

MODEST = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
DEEP = settings(MODEST, max_examples=600, stateful_step_count=60)

_MAX_SESSIONS = 6
_IDS = 24
_runs = counter(1)


class StoreHistoryContract:
    async def test_a_random_history_matches_the_naive_model(self, store: Store, stored_text: StoredText) -> None:
        await run_histories(store, stored_text, MODEST)

    @pytest.mark.long
    async def test_many_long_random_histories_match_the_naive_model(
        self, store: Store, stored_text: StoredText
    ) -> None:
        await run_histories(store, stored_text, DEEP)


async def run_histories(store: Store, stored_text: StoredText, how: settings) -> None:
    machine: Any = partial(StoreMachine, store, asyncio.get_running_loop(), stored_text)
    await asyncio.to_thread(run_state_machine_as_test, machine, settings=how)


class StoreMachine(RuleBasedStateMachine):
    """One example: a few sessions, some forked from others, in a namespace of their own."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, stored_text: StoredText) -> None:
        super().__init__()
        self._store = store
        self._loop = loop
        self._stored_text = stored_text
        self._mark = f"r{next(_runs)}"
        self._numbers = counter(1)
        self._model: dict[str, Conversation] = {}
        self._above: dict[str, tuple[int, ...]] = {}
        self._tree_of: dict[str, int] = {}
        self._logged: defaultdict[str, set[str]] = defaultdict(set)

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    # steps

    @initialize(size=st.integers(1, 6))
    def begin(self, size: int) -> None:
        self._append(self._new_session(), [self._id(number) for number in range(size)], FOLLOW_HEAD)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        name = self._a_session(data)
        parents: list[str | FollowHead | None] = [FOLLOW_HEAD, FOLLOW_HEAD, None, *self._model[name].notes]
        ids = data.draw(st.lists(st.integers(0, _IDS - 1).map(self._id), min_size=1, max_size=4), "ids")
        self._append(name, ids, data.draw(st.sampled_from(parents), "parent"))

    @rule(data=st.data())
    def start_another(self, data: st.DataObject) -> None:
        if len(self._model) < _MAX_SESSIONS:
            self._append(self._new_session(), [self._id(data.draw(st.integers(0, _IDS - 1), "id"))], FOLLOW_HEAD)

    @rule(data=st.data(), at_head=st.booleans())
    def fork(self, data: st.DataObject, at_head: bool) -> None:
        if len(self._model) < _MAX_SESSIONS:
            name = self._a_session(data)
            at_head = at_head or not self._model[name].notes
            self._fork(name, self._model[name].head if at_head else self._a_message(data, name))

    @rule(data=st.data(), replaced=st.booleans(), deleted=st.booleans())
    def fork_through_one_that_is_deleted(self, data: st.DataObject, replaced: bool, deleted: bool) -> None:
        """Fork a session, change and fork the fork, then delete or clear the one in the middle."""
        if len(self._model) >= _MAX_SESSIONS - 1:
            return
        name = self._a_session(data)
        between = self._fork(name, self._model[name].head)
        if replaced and self._model[between].notes:
            self._replace(between, self._a_message(data, between))
        self._append(between, [self._id(data.draw(st.integers(0, _IDS - 1), "id"))], FOLLOW_HEAD)
        self._fork(between, self._model[between].head)
        if deleted:
            self._delete_session(between)
        else:
            self._clear(between)

    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        if name := self._a_session_with_messages(data):
            leaf = data.draw(st.sampled_from([None, *self._model[name].notes]), "leaf")

            def build(tree: Tree) -> Plan:
                return plans.switch(tree, self._place(tree, leaf), self._tick())

            self._change(name, build, find=[] if leaf is None else [leaf])
            self._model[name].head = leaf

    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        if name := self._a_session_with_messages(data):
            self._replace(name, self._a_message(data, name))

    @rule(data=st.data())
    def delete_messages(self, data: st.DataObject) -> None:
        if name := self._a_session_with_messages(data):
            notes = list(self._model[name].notes)
            ids = data.draw(st.lists(st.sampled_from(notes), min_size=1, max_size=4, unique=True), "deleted")

            def build(tree: Tree) -> Plan | None:
                places = [place for id in ids if (place := self._place(tree, id)) is not None]
                if edits.touches_others(tree, places) and not tree.rows.sessions:
                    return None
                return edits.delete_messages(tree, places, self._tick())

            self._change(name, build, find=ids)
            self._logged[name].update(ids, (cover.id for cover in self._model[name].covers))
            self._model[name].delete(ids)
            self._wait(self._check_nothing_else_is_stored())

    @rule(data=st.data(), kind=st.sampled_from(["summary", "summary", "truncate", "reset"]))
    def add_overlay(self, data: st.DataObject, kind: Kind) -> None:
        if name := self._a_session_with_messages(data):
            end = self._a_message(data, name)
            start = data.draw(st.sampled_from(self._model[name].path(end)), "start")
            id = self._fresh("o")
            summary, tokens = (self._fresh("s"), 7) if kind == "summary" else (None, 0)

            def build(tree: Tree) -> Plan | None:
                first, last = self._place(tree, start), self._place(tree, end)
                assert first is not None
                assert last is not None
                assert tree.precedes(first, last)
                overlay = NewOverlay(
                    id=id, kind=kind, start=first, end=last, summary=summary, tokens=tokens, created_at=self._tick()
                )
                replaced = plans.cut_between(tree, first, last)
                if any(sharing.is_shared(tree, row) for row in replaced) and not tree.rows.sessions:
                    return None
                return plans.add_overlay(tree, overlay, self._tick())

            self._change(name, build, find=[start, end])
            self._logged[name].update(cover.id for cover in self._model[name].covers)
            self._model[name].cover(id, kind, summary, tokens, start, end)
            self._logged[name].add(id)

    @precondition(lambda self: any(model.covers for model in self._model.values()))
    @rule(data=st.data())
    def remove_overlay(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name, model in self._model.items() if model.covers]), "session")
        id = data.draw(st.sampled_from([cover.id for cover in self._model[name].covers]), "overlay")

        def build(tree: Tree) -> Plan | None:
            overlay = next(overlay for overlay in tree.overlays if overlay.id == id)
            if sharing.is_shared(tree, overlay) and not tree.rows.sessions:
                return None
            return plans.remove_overlay(tree, overlay, self._tick())

        self._change(name, build)
        self._model[name].uncover(id)
        self._logged[name].add(id)
        self._wait(self._check_nothing_else_is_stored())

    @rule(data=st.data())
    def settle_a_view(self, data: st.DataObject) -> None:
        self._wait(self._settle(self._a_session(data)))

    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        self._clear(self._a_session(data))

    @precondition(lambda self: len(self._model) > 1)
    @rule(data=st.data())
    def delete_session(self, data: st.DataObject) -> None:
        self._delete_session(self._a_session(data))

    def teardown(self) -> None:
        """Leave an empty store: `everything_stored` would otherwise show what every earlier example left."""
        for name in list(self._model):
            self._delete_session(name)
        self._wait(self._store.trim_changes(self._mark, before_at=self._tick(), limit=1 << 30))

    # how the steps are done

    def _append(self, name: str, ids: Sequence[str], parent: str | FollowHead | None) -> None:
        messages = tuple(self._message(id) for id in ids)
        request = Append(
            namespace=self._mark,
            session_id=name,
            messages=messages,
            fresh=(False,) * len(messages),
            now=self._tick(),
            parent=parent,
        )
        model = self._model[name]
        batch = [(message.id, _text(message), message.tokens) for message in messages]
        expected = model.append(batch) if isinstance(parent, FollowHead) else model.append_path(batch, parent)
        if expected is None:
            with pytest.raises(InvalidRangeError):
                self._wait(self._store.append(request))
            return
        result = self._wait(self._store.append(request))
        assert [(row.inserted, row.parent_id) for row in result.rows] == expected

    def _fork(self, name: str, at: str | None) -> str:
        new = NewSession(namespace=self._mark, id=self._name(), now=self._tick(), parent_session_id=name)

        def build(tree: Tree) -> Plan:
            return forks.fork(tree, new, self._place(tree, at), new.now)

        self._change(name, build, find=[at] if at else [])
        self._model[new.id] = self._model[name].fork(at)
        self._above[new.id] = (self._tree_of[name], *self._above[name])
        self._tree_of[new.id] = self._tick()
        return new.id

    def _replace(self, name: str, id: str) -> None:
        message = self._message(id)

        def build(tree: Tree) -> Plan | None:
            place = self._place(tree, id)
            assert place is not None
            if edits.touches_others(tree, [place]) and not tree.rows.sessions:
                return None
            return edits.replace_message(tree, place, message, tokens_at(tree, place), self._tick())

        self._change(name, build, find=[id])
        self._model[name].replace(id, _text(message), message.tokens)
        self._wait(self._check_nothing_else_is_stored())

    def _clear(self, name: str) -> None:
        self._change(name, lambda tree: plans.clear_messages(tree.rows, self._tick()), family=True)
        self._model[name].clear()
        self._tree_of[name], self._above[name] = self._tick(), ()
        self._wait(self._check_nothing_else_is_stored())

    def _delete_session(self, name: str) -> None:
        self._change(name, lambda tree: plans.delete_session(tree.rows, self._tick()), family=True)
        del self._model[name], self._tree_of[name], self._above[name]
        self._logged.pop(name, None)
        assert self._wait(self._store.get(self._mark, name)) is None
        self._wait(self._check_nothing_else_is_stored())

    def _change(
        self, name: str, build: Callable[[Tree], Plan | None], *, find: Sequence[str] = (), family: bool = False
    ) -> None:
        """Load, build and apply; `build` returns None if it needs the whole family."""

        async def change() -> None:
            plan = build(await self._tree(name, find, family)) or build(await self._tree(name, find, True))
            assert plan is not None
            assert await self._store.apply(plan)

        self._wait(change())

    async def _tree(self, name: str, find: Sequence[str] = (), family: bool = False) -> Tree:
        [rows] = await self._store.trees(self._mark, [name], find=find, family=family)
        return Tree(rows)

    async def _settle(self, name: str) -> None:
        tree = await self._tree(name)
        if tree.session.view == "stale":
            items = tree.lay(tree.session.head)
            tokens = await self._tokens(tree, items)
            view = tree.view(tree.session.head)
            assert await self._store.apply(plans.store_view(tree, view, tokens, count(items), self._tick()))

    # what is checked after each step

    @invariant()
    def every_session_looks_like_its_model(self) -> None:
        for name, model in self._model.items():
            self._wait(self._compare(name, model))

    async def _compare(self, name: str, model: Conversation) -> None:
        tree = await self._tree(name, [*model.notes, "missing"])
        session = tree.session
        places = {id: self._place(tree, id) for id in model.notes}
        ids = {place: id for id, place in places.items()}
        assert tree.find("missing") is None
        assert {ids[leaf] for leaf in tree.leaves()} == model.leaves()
        for id in (None, *model.notes):
            assert {ids[child] for child in tree.children(places[id] if id else None)} == model.children(id)
        assert (ids[session.head] if session.head else None) == model.head
        assert session.message_count == len(model.notes)
        assert session.compaction_count == len(model.covers)
        for leaf in {*model.leaves(), model.head}:
            place = places[leaf] if leaf else None
            assert await self._read(tree.lay(place, overlays=False)) == model.transcript(leaf)
            view = tree.lay(place)
            assert await self._read(view) == model.view(leaf)
            assert count(view) == len(model.view(leaf))
            assert await self._tokens(tree, view) == sum(shown.tokens for shown in model.view(leaf))
        assert [(overlay.id, overlay.kind, overlay.stale) for overlay in tree.overlays] == [
            (cover.id, cover.kind, cover.stale) for cover in reversed(model.covers)
        ]
        for overlay, cover in zip(tree.overlays, reversed(model.covers), strict=True):
            assert [shown.id for shown in await self._read(tree.covered_items(overlay))] == cover.covered
        await self._compare_stored_view(tree, model)
        self._compare_lineage(tree, name)

    async def _compare_stored_view(self, tree: Tree, model: Conversation) -> None:
        """The stored view at the head, and what a fork inherits from it."""
        session, expected = tree.session, model.view(model.head)
        new = NewSession(namespace=self._mark, id="missing", now=0)
        plan = forks.fork_at_head(session, tree.rows.view, new, 0)
        assert (plan is None) == (session.view == "stale")
        if plan is not None:
            assert await self._read(whole_view(session, tree.rows.view)) == expected
            assert session.view_messages == len(expected)
            assert session.view_tokens == sum(shown.tokens for shown in expected)
            made = plan.fork
            assert made is not None
            assert (made.message_count, made.compaction_count) == model.on_the_way(model.head)
            path = tree.path(session.head)
            assert set(made.share) <= set(path)
            for place in path:
                seen = tree.at_or_before(place)
                if seen is not None and seen.segment == place.segment:
                    assert place in made.share or seen.position <= tree.segments[place.segment].shared

    def _compare_lineage(self, tree: Tree, name: str) -> None:
        """One row for each fork among the ancestors, and none for forks without descendants."""
        above = {link.tree: link.ancestor for link in tree.rows.lineage}
        at, ways = tree.session.tree, 0
        while at in above:
            at, ways = above[at], ways + 1
        assert len(tree.rows.lineage) == ways == len(self._above[name])
        has_forks = any(self._tree_of[name] in above for above in self._above.values())
        assert (tree.rows.forked_until >= 0) == has_forks

    async def _read(self, items: Sequence[Item]) -> list[Shown]:
        shown = []
        for piece in await self._store.read(items):
            before = piece.before_id
            if (overlay := piece.overlay) is not None:
                shown.append(Shown(overlay.id, overlay.summary or "", before, overlay.tokens))
            for message in piece.messages:
                shown.append(Shown(message.id, _text(message), before, message.tokens))
                before = message.id
        return shown

    async def _tokens(self, tree: Tree, items: Sequence[Item]) -> int:
        places = tree.needed_sums(items)
        return tree.tokens(items, dict(zip(places, await self._store.sums(places), strict=True)))

    async def _check_nothing_else_is_stored(self) -> None:
        """Text that no session sees any more is not in the store, except for the ids in the change log of a session."""
        stored = await self._stored_text()
        seen = {text for model in self._model.values() for text in model.texts()}.union(*self._logged.values())
        assert set(re.findall(rf"<{self._mark}-\w+>", stored)) <= seen

    # draws and names

    def _a_session(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(list(self._model)), "session")

    def _a_session_with_messages(self, data: st.DataObject) -> str | None:
        names = [name for name, model in self._model.items() if model.notes]
        return data.draw(st.sampled_from(names), "session") if names else None

    def _a_message(self, data: st.DataObject, name: str) -> str:
        return data.draw(st.sampled_from(list(self._model[name].notes)), "message")

    def _place(self, tree: Tree, id: str | None) -> Place | None:
        place = None if id is None else tree.find(id)
        assert (place is None) == (id is None)
        return place

    def _new_session(self) -> str:
        name = self._name()
        self._model[name] = Conversation()
        self._tree_of[name], self._above[name] = self._tick(), ()
        return name

    def _name(self) -> str:
        return f"session-{next(self._numbers)}"

    def _tick(self) -> int:
        return next(self._numbers)

    def _id(self, number: int) -> str:
        return f"<{self._mark}-i{number}>"

    def _fresh(self, kind: str) -> str:
        return f"<{self._mark}-{kind}{next(self._numbers)}>"

    def _message(self, id: str) -> StoredMessage:
        text = self._fresh("t")
        raw = msgspec.json.encode({"role": "user", "content": text}).decode()
        return StoredMessage(id, "user", 1 + next(self._numbers) % 13, self._tick(), raw)


def _text(message: StoredMessage) -> str:
    text = msgspec.json.decode(message.raw)["content"]
    assert isinstance(text, str)
    return text
