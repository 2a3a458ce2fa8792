"""The contract that every store keeps. A store's whole test file: inherit `StoreContract`, give one async fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self):
            store = MyStore(...)
            yield store
            await store.close()

Needs pytest and pytest-asyncio in auto mode. `frontdesk.testing.store_machine` adds random histories.
"""

from __future__ import annotations

from frontdesk.testing.store_contract.appending import AppendContract
from frontdesk.testing.store_contract.changes import ChangeContract
from frontdesk.testing.store_contract.concurrency import ConcurrencyContract
from frontdesk.testing.store_contract.forks import ForkContract
from frontdesk.testing.store_contract.keeping import KeepingContract
from frontdesk.testing.store_contract.ledger import LedgerContract
from frontdesk.testing.store_contract.letting_go import LettingGoContract
from frontdesk.testing.store_contract.lifecycle import LifecycleContract
from frontdesk.testing.store_contract.log import LogContract
from frontdesk.testing.store_contract.reading import ReadContract
from frontdesk.testing.store_contract.searching import SearchContract
from frontdesk.testing.store_contract.sessions import SessionContract
from frontdesk.testing.store_contract.turns import TurnContract

__all__ = ["StoreContract"]


class StoreContract(
    SessionContract,
    AppendContract,
    ReadContract,
    ChangeContract,
    ForkContract,
    LettingGoContract,
    LedgerContract,
    KeepingContract,
    SearchContract,
    LogContract,
    TurnContract,
    LifecycleContract,
    ConcurrencyContract,
):
    """All that a user of the seam relies on."""
