"""Random histories: after each step the store must contain exactly what a plain dictionary contains."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from frontdesk.messages.ids import new_id
from frontdesk.store import StateKey, StateRow, StateStore
from frontdesk.testing.state_contract.steps import HOUR, MILLISECOND, mark, pass_time

T = TypeVar("T")
MODEST = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
DEEP = settings(MODEST, max_examples=400, stateful_step_count=60)

_NAMESPACES, _IDS, _NAMES = ("", ":"), ("a", "a:", "{a}"), ("s", "a:s")
_keys = st.tuples(*map(st.sampled_from, (_NAMESPACES, _IDS, _NAMES)))

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

    @rule(parts=_keys, value=_values, ttl=st.sampled_from([HOUR, None]))
    def create(self, parts: tuple[str, str, str], value: str, ttl: int | None) -> None:
        key, new = self._key(parts), mark()
        row = self._wait(self._store.create_state(key, value, ttl, new))
        assert (row is None) == (key in self._model)
        if row is not None:
            self._marks.append(new)
            self._model[key] = Kept(value, new, 1, ttl, row.accessed_at)
            assert row.created_at == row.accessed_at

    @rule(parts=_keys)
    def create_one_that_expires(self, parts: tuple[str, str, str]) -> None:
        key = self._key(parts)
        if key not in self._model:
            row = self._wait(self._store.create_state(key, "gone", MILLISECOND, mark()))
            assert row is not None
            self._marks.append(row.mark)
            self._wait(pass_time(3 * MILLISECOND))

    @rule(parts=_keys, value=_values, data=st.data())
    def replace(self, parts: tuple[str, str, str], value: str, data: st.DataObject) -> None:
        key, new = self._key(parts), mark()
        kept = self._model.get(key)
        likely = [kept.mark] * len(self._marks) if kept else []
        seen = data.draw(st.sampled_from(likely + self._marks), "seen")
        row = self._wait(self._store.replace_state(key, value, new, seen))
        assert (row is not None) == (kept is not None and kept.mark == seen)
        if row is not None and kept is not None:
            self._marks.append(new)
            self._model[key] = Kept(value, new, kept.version + 1, kept.ttl, row.accessed_at)

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
                seen = Kept(row.value, row.mark, row.version, row.ttl, row.accessed_at)
                assert seen == kept
