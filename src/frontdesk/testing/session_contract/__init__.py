"""The second contract: everything `SessionManager` and `Session` promise, run over a store.

Prove a store of your own with one class and one fixture (pytest-asyncio in auto mode):

    class TestMyStore(SessionContract):
        @pytest.fixture
        async def store(self):
            store = MyStore()
            yield store
            await store.close()

One database may serve all tests: each works in a namespace of its own.
"""

from __future__ import annotations

from frontdesk.testing.session_contract.branches import BranchContract
from frontdesk.testing.session_contract.compacting import CompactingContract
from frontdesk.testing.session_contract.condensing import CondensingContract
from frontdesk.testing.session_contract.context import ContextContract
from frontdesk.testing.session_contract.covering import CoveringContract
from frontdesk.testing.session_contract.directory import DirectoryContract
from frontdesk.testing.session_contract.erasing import ErasureContract
from frontdesk.testing.session_contract.forks import ForkContract
from frontdesk.testing.session_contract.hooks import HookContract
from frontdesk.testing.session_contract.lifecycle import LifecycleContract
from frontdesk.testing.session_contract.looking import LookingContract
from frontdesk.testing.session_contract.messages import MessageContract
from frontdesk.testing.session_contract.model import ModelContract
from frontdesk.testing.session_contract.overlays import OverlayContract
from frontdesk.testing.session_contract.remembering import RememberingContract
from frontdesk.testing.session_contract.searching import SearchContract
from frontdesk.testing.session_contract.states import StatesContract
from frontdesk.testing.session_contract.sweeping import SweepContract
from frontdesk.testing.session_contract.telling import EventContract
from frontdesk.testing.session_contract.tooling import ToolContract
from frontdesk.testing.session_contract.turns import TurnContract
from frontdesk.testing.session_contract.windows import WindowContract


class SessionContract(
    MessageContract,
    BranchContract,
    WindowContract,
    OverlayContract,
    ForkContract,
    DirectoryContract,
    LifecycleContract,
    SweepContract,
    ErasureContract,
    HookContract,
    ContextContract,
    ToolContract,
    LookingContract,
    CompactingContract,
    CondensingContract,
    RememberingContract,
    SearchContract,
    CoveringContract,
    TurnContract,
    EventContract,
    StatesContract,
    ModelContract,
):
    """The public API over the store that the fixture `store` gives."""
