"""Everything that `SessionManager` and `Session` promise, run on every store: one module for each subject.

`test_stores` inherits `PublicApiContract` once for each store and supplies the fixture `store`. One database may serve
all tests: each test has a namespace of its own.
"""

from __future__ import annotations

from tests.public_api.background_compaction import BackgroundCompactionContract
from tests.public_api.branches import BranchContract
from tests.public_api.compaction import CompactionContract
from tests.public_api.compaction_coverage import CompactionCoverageContract
from tests.public_api.context import ContextContract
from tests.public_api.context_tools import ContextToolContract
from tests.public_api.directory import DirectoryContract
from tests.public_api.erasure import ErasureContract
from tests.public_api.events import EventContract
from tests.public_api.forks import ForkContract
from tests.public_api.hooks import HookContract
from tests.public_api.lifecycle import LifecycleContract
from tests.public_api.memory import MemoryContract
from tests.public_api.messages import MessageContract
from tests.public_api.overlays import OverlayContract
from tests.public_api.random_histories import RandomHistoryContract
from tests.public_api.search import SearchContract
from tests.public_api.search_tools import SearchToolContract
from tests.public_api.semantic_search import SemanticSearchContract
from tests.public_api.states import StatesContract
from tests.public_api.sweeps import SweepContract
from tests.public_api.turns import TurnContract
from tests.public_api.windows import WindowContract


class PublicApiContract(
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
    ContextToolContract,
    SearchContract,
    SearchToolContract,
    SemanticSearchContract,
    BackgroundCompactionContract,
    CompactionContract,
    CompactionCoverageContract,
    MemoryContract,
    TurnContract,
    EventContract,
    StatesContract,
    RandomHistoryContract,
):
    """The public API over the store that the fixture `store` supplies."""
