"""Random histories: after each step the store must contain exactly what a plain dictionary contains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from frontdesk.messages.ids import new_id
from frontdesk.store import (
    OwnerFilter,
    StateKey,
    StateOwner,
    StateQuery,
    StateRow,
    StateStore,
    Swept,
    prefix_end,
)
from frontdesk.testing.state_contract.steps import HOUR, MILLISECOND, mark, pass_time, written

T = TypeVar("T")
MODEST = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
DEEP = settings(MODEST, max_examples=400, stateful_step_count=60)

_NAMESPACES, _IDS, _NAMES = ("", ":"), ("a", "a:", "{a}"), ("s", "a:s")
_keys = st.tuples(*map(st.sampled_from, (_NAMESPACES, _IDS, _NAMES)))

_OWNERS = [
    StateOwner("bot", "web", "ada", None),
    StateOwner("bot", "web", "ada", "t"),
    StateOwner("x", "web", "b", None),
]
_FILTERS = [
    *(
        OwnerFilter(peer="ada"),
        OwnerFilter("bot", "web", "ada", "t"),
        OwnerFilter(agent="x"),
        OwnerFilter(channel="web"),
    )
]
_owners = st.sampled_from([None, *_OWNERS])
_ttls = st.sampled_from([HOUR, 2 * HOUR, None])
_values = st.text(max_size=20).filter(lambda text: "\0" not in text)


class StateHistoryContract:
    async def test_a_random_history_matches_the_naive_model(self, store: StateStore) -> None:
        await run_histories(store, MODEST)

    @pytest.mark.long
    async def test_many_long_random_histories_match_the_naive_model(self, store: StateStore) -> None:
        await run_histories(store, DEEP)


async def run_histories(store: StateStore, how: settings) -> None:
    machine: Any = partial(StateMachine, store, asyncio.get_running_loop())
    await asyncio.to_thread(run_state_machine_as_test, machine, settings=how)


@dataclass
class Kept:
    """A state in the model."""

    value: str
    mark: str
    version: int
    ttl: int | None
    owner: StateOwner | None
    accessed_at: int = 0


class StateMachine(RuleBasedStateMachine):
    """One example: a few states in two namespaces of its own."""

    def __init__(self, store: StateStore, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._store = store
        self._loop = loop
        self._prefix = f"machine-{new_id()}"
        self._model: dict[StateKey, Kept] = {}
        self._marks: list[str] = [mark()]

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    def _key(self, parts: tuple[str, str, str]) -> StateKey:
        return StateKey(self._prefix + parts[0], parts[1], parts[2])

    @rule(parts=_keys, value=_values, ttl=_ttls, owner=_owners)
    def create(self, parts: tuple[str, str, str], value: str, ttl: int | None, owner: StateOwner | None) -> None:
        key, new = self._key(parts), mark()
        row = self._wait(self._store.create_state(key, written(value, new, ttl, owner)))
        assert (row is None) == (key in self._model)
        if row is not None:
            self._marks.append(new)
            self._model[key] = Kept(value, new, 1, ttl, owner, row.accessed_at)
            assert row.created_at == row.accessed_at

    @rule(parts=_keys)
    def create_one_that_expires(self, parts: tuple[str, str, str]) -> None:
        key = self._key(parts)
        if key not in self._model:
            row = self._wait(self._store.create_state(key, written("gone", ttl=MILLISECOND)))
            assert row is not None
            self._marks.append(row.mark)
            self._wait(pass_time(3 * MILLISECOND))

    @rule(parts=_keys, value=_values, ttl=_ttls, owner=_owners, data=st.data())
    def replace(
        self,
        parts: tuple[str, str, str],
        value: str,
        ttl: int | None,
        owner: StateOwner | None,
        data: st.DataObject,
    ) -> None:
        key, new = self._key(parts), mark()
        kept = self._model.get(key)
        likely = [kept.mark] * len(self._marks) if kept else []
        seen = data.draw(st.sampled_from(likely + self._marks), "seen")
        row = self._wait(self._store.replace_state(key, written(value, new, ttl, owner), seen))
        assert (row is not None) == (kept is not None and kept.mark == seen)
        if row is not None and kept is not None:
            self._marks.append(new)
            self._model[key] = Kept(value, new, kept.version + 1, ttl, owner, row.accessed_at)

    @rule(parts=_keys)
    def get(self, parts: tuple[str, str, str]) -> None:
        key = self._key(parts)
        row = self._wait(self._store.get_state(key))
        if row is None:
            assert key not in self._model
        else:
            assert row.accessed_at >= self._model[key].accessed_at
            self._model[key].accessed_at = row.accessed_at

    @rule(parts=_keys)
    def touch(self, parts: tuple[str, str, str]) -> None:
        key = self._key(parts)
        assert self._wait(self._store.touch_state(key)) == (key in self._model)
        row = self._wait(self._store.peek_state(key))
        if row is not None:
            self._model[key].accessed_at = row.accessed_at

    @rule(parts=_keys)
    def delete(self, parts: tuple[str, str, str]) -> None:
        key = self._key(parts)
        assert self._wait(self._store.delete_state(key)) == (self._model.pop(key, None) is not None)

    @rule(parts=_keys)
    def delete_by_id(self, parts: tuple[str, str, str]) -> None:
        wanted = self._key(parts)[:2]
        gone = [key for key in self._model if key[:2] == wanted]
        assert self._wait(self._store.delete_states(*wanted)) == len(gone)
        for key in gone:
            del self._model[key]

    @rule(namespace=st.sampled_from(_NAMESPACES), name=st.sampled_from(_NAMES), limit=st.integers(1, 3))
    def clear(self, namespace: str, name: str, limit: int) -> None:
        self._remove(
            lambda: self._store.clear_states(self._prefix + namespace, name, limit),
            [key for key in self._model if key[::2] == (self._prefix + namespace, name)],
        )

    @rule(namespace=st.sampled_from(_NAMESPACES), owners=st.sampled_from(_FILTERS), limit=st.integers(1, 3))
    def delete_owned(self, namespace: str, owners: OwnerFilter, limit: int) -> None:
        self._remove(
            lambda: self._store.delete_owned_states(self._prefix + namespace, owners, limit),
            [
                key
                for key, kept in self._model.items()
                if key.namespace == self._prefix + namespace and kept.owner and owners.matches(kept.owner)
            ],
        )

    def _remove(self, remove: Callable[[], Coroutine[Any, Any, Swept]], gone: list[StateKey]) -> None:
        removed, more = 0, True
        while more:
            batch, more = self._wait(remove())
            removed += batch
        assert removed == len(gone)
        for key in gone:
            del self._model[key]

    @rule(
        namespace=st.sampled_from(_NAMESPACES),
        name=st.sampled_from(_NAMES),
        prefix=st.sampled_from(["", "a", "a:", "{", "b"]),
        limit=st.integers(1, 3),
    )
    def walk(self, namespace: str, name: str, prefix: str, limit: int) -> None:
        ids = sorted(key.id for key in self._model if key[::2] == (self._prefix + namespace, name))
        assert self._wait(self._store.count_states(self._prefix + namespace, name)) == len(ids)
        query = StateQuery(self._prefix + namespace, name, limit, prefix, prefix_end(prefix))
        found: list[str] = []
        while page := self._wait(self._store.list_states(query)):
            assert len(page) <= limit
            for id, row in page:
                kept = self._model[StateKey(query.namespace, id, name)]
                assert (row.value, row.version, row.owner, row.ttl) == ("", kept.version, kept.owner, kept.ttl)
                found.append(id)
            query = query._replace(after=found[-1])
        assert found == [id for id in ids if id.startswith(prefix)]

    @rule(limit=st.integers(1, 3))
    def sweep(self, limit: int) -> None:
        assert self._wait(self._store.sweep_states(limit)).removed <= limit

    async def _peek(self, keys: list[StateKey]) -> list[StateRow | None]:
        return await asyncio.gather(*map(self._store.peek_state, keys))

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        keys = [self._key(parts) for parts in product(_NAMESPACES, _IDS, _NAMES)]
        for key, row in zip(keys, self._wait(self._peek(keys)), strict=True):
            kept = self._model.get(key)
            assert (row is None) == (kept is None), key
            if row is not None and kept is not None:
                seen = Kept(row.value, row.mark, row.version, row.ttl, row.owner, row.accessed_at)
                assert seen == kept
