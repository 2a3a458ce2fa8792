"""What became of a call that raised: it was refused and left no trace, or the store was closed and nothing happened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from frontdesk.error_codes import error_code
from frontdesk.errors import (
    ConflictError,
    FrontdeskError,
    HeadMovedError,
    MessageNotFoundError,
    SessionNotFoundError,
    StoreClosedError,
    StoreError,
)
from frontdesk.store import Store
from frontdesk.testing.store_contract.steps import NAMESPACE, add, new, path, row

REFUSED: dict[type[FrontdeskError], Callable[[Store], Awaitable[object]]] = {
    HeadMovedError: lambda store: add(store, "s", "m2", expected_head="m0"),
    MessageNotFoundError: lambda store: add(store, "s", "m2", parent="m0"),
    SessionNotFoundError: lambda store: store.acquire_lease(NAMESPACE, "nobody", "work", "ana", 1_000_000),
}
CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "append": lambda store: add(store, "s", "m2"),
    "create": lambda store: store.create(new("t")),
    "get": lambda store: store.get(NAMESPACE, "s"),
    "view": lambda store: store.view(NAMESPACE, "s", None),
    "last_change": lambda store: store.last_change(NAMESPACE),
}


class OutcomeContract:
    @pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
    async def test_a_refused_call_says_so_and_leaves_no_trace(self, store: Store, kind: type[FrontdeskError]) -> None:
        await add(store, "s", "m1")
        before = await row(store, "s"), await store.last_change(NAMESPACE)
        with pytest.raises(kind) as raised:
            await REFUSED[kind](store)
        assert (raised.value.uncertain, error_code(raised.value).outcome) == (False, "refused")
        assert not isinstance(raised.value, StoreError)
        assert (await row(store, "s"), await store.last_change(NAMESPACE)) == before

    async def test_a_refused_call_among_others_does_not_affect_them(self, store: Store) -> None:
        await add(store, "s", "m1")
        with pytest.raises(ConflictError):
            await add(store, "s", "m2", "m3", expected_head="m0")
        await add(store, "s", "m2", expected_head="m1")
        assert await path(store, "s") == ["m1", "m2"]

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_closed_store_refuses_every_call(self, store: Store, name: str) -> None:
        await add(store, "s", "m1")
        await store.close()
        with pytest.raises(StoreClosedError) as raised:
            await CALLS[name](store)
        assert error_code(raised.value).outcome == "refused"
        await store.open()
        assert await path(store, "s") == ["m1"]
