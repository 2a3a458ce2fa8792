"""The contract that every store of states keeps. Its whole test file: inherit `StateContract`, give one async fixture.

    class TestMyStore(StateContract):
        @pytest.fixture
        async def store(self):
            store = MyStore(...)
            yield store
            await store.close()

One database may serve all tests: each works in a namespace of its own. Needs pytest and pytest-asyncio in auto mode,
and hypothesis for the random histories.
"""

from __future__ import annotations

from frontdesk.testing.state_contract.changing import ChangingContract
from frontdesk.testing.state_contract.expiring import ExpiringContract
from frontdesk.testing.state_contract.keeping import KeepingContract
from frontdesk.testing.state_contract.machine import HistoryContract
from frontdesk.testing.state_contract.using import UsingContract

__all__ = ["StateContract"]


class StateContract(KeepingContract, ExpiringContract, ChangingContract, UsingContract, HistoryContract):
    """All that a user of a `StateStore`, and of `States` over it, relies on."""
