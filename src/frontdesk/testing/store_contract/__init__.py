"""The contract of a `Store`, one module for each subject."""

from __future__ import annotations

from typing import ClassVar

import pytest

from frontdesk.store import ShelfStore, StateStore, Store, VectorStore
from frontdesk.testing.shelf_contract import ShelfContract
from frontdesk.testing.state_contract import StateContract
from frontdesk.testing.store_contract.appends import AppendContract
from frontdesk.testing.store_contract.change_log import ChangeLogContract
from frontdesk.testing.store_contract.concurrency import ConcurrencyContract
from frontdesk.testing.store_contract.concurrent_plans import ConcurrentPlanContract
from frontdesk.testing.store_contract.documents import DocumentContract
from frontdesk.testing.store_contract.forks import ForkContract
from frontdesk.testing.store_contract.leases import LeaseContract
from frontdesk.testing.store_contract.lifecycle import LifecycleContract
from frontdesk.testing.store_contract.outcomes import OutcomeContract
from frontdesk.testing.store_contract.plans import PlanContract
from frontdesk.testing.store_contract.random_histories import StoreHistoryContract
from frontdesk.testing.store_contract.reads import ReadContract
from frontdesk.testing.store_contract.search_index import SearchIndexContract
from frontdesk.testing.store_contract.sessions import SessionContract
from frontdesk.testing.store_contract.shared_content import SharedContentContract
from frontdesk.testing.store_contract.state_stores import StateStoresContract
from frontdesk.testing.store_contract.turns import TurnContract
from frontdesk.testing.store_contract.usage import UsageContract
from frontdesk.testing.store_contract.vectors import VectorContract


class StoreContract(
    SessionContract,
    AppendContract,
    ReadContract,
    PlanContract,
    ForkContract,
    SharedContentContract,
    ConcurrentPlanContract,
    UsageContract,
    DocumentContract,
    LeaseContract,
    TurnContract,
    LifecycleContract,
    StateStoresContract,
    SearchIndexContract,
    ChangeLogContract,
    ConcurrencyContract,
    OutcomeContract,
):
    """Everything that the session layer relies on.

    A subclass supplies the fixtures `store`, new and empty for every test, and `stored_text`. pytest collects the tests
    of the optional abilities as `TestVectors`, `TestStates` and `TestShelves` inside the subclass; a store without
    one of them sets it to None.
    """

    TestRandomHistories: ClassVar[type[StoreHistoryContract] | None] = StoreHistoryContract
    TestVectors: ClassVar[type[VectorContract] | None] = VectorContract
    TestStates: ClassVar[type[StateContract] | None] = StateContract
    TestShelves: ClassVar[type[ShelfContract] | None] = ShelfContract

    @pytest.mark.parametrize(
        ("ability", "tests"),
        [(VectorStore, "TestVectors"), (StateStore, "TestStates"), (ShelfStore, "TestShelves")],
    )
    async def test_every_ability_of_the_store_is_tested(self, store: Store, ability: type, tests: str) -> None:
        has_ability = isinstance(store, ability)
        is_tested = getattr(self, tests) is not None
        hint = f"remove `{tests} = None`" if has_ability else f"set `{tests} = None`"
        assert has_ability == is_tested, f"{type(store).__name__}, {ability.__name__}: {hint} in {type(self).__name__}"
