"""Everything that `SessionManager` and `Session` promise, run on every store: one module for each subject.

`test_stores` inherits `PublicApiTests` once for each store and supplies the fixture `store`. One database may serve
all tests: each test has a namespace of its own.
"""

from __future__ import annotations

from tests.public_api.accepted_messages import AcceptedMessageTests
from tests.public_api.background_compaction import BackgroundCompactionTests
from tests.public_api.branches import BranchTests
from tests.public_api.closing import ClosingTests
from tests.public_api.coding_agent import CodingAgentTests
from tests.public_api.compaction import CompactionTests
from tests.public_api.compaction_coverage import CompactionCoverageTests
from tests.public_api.compaction_reports import CompactionReportTests
from tests.public_api.context import ContextFixtures, ContextTests
from tests.public_api.context_tools import ContextToolTests
from tests.public_api.directory import DirectoryTests
from tests.public_api.erasure import ErasureTests
from tests.public_api.events import EventTests
from tests.public_api.explaining import ExplainingTests
from tests.public_api.forks import ForkTests
from tests.public_api.guarded_writes import GuardedWriteTests
from tests.public_api.guest_memory import GuestMemoryTests
from tests.public_api.hooks import HookTests
from tests.public_api.lifecycle import ClockFixtures, LifecycleTests
from tests.public_api.listing import ListingTests
from tests.public_api.memory import MemoryTests
from tests.public_api.memory_attack import MemoryAttackTests
from tests.public_api.messages import MessageTests
from tests.public_api.model_search import ModelSearchTests
from tests.public_api.overlays import OverlayTests
from tests.public_api.paging import PagingTests
from tests.public_api.preparing import PreparingTests
from tests.public_api.random_histories import RandomHistoryTests
from tests.public_api.replaced_messages import ReplacedMessageTests
from tests.public_api.scopes import ScopeTests
from tests.public_api.search import SearchTests
from tests.public_api.search_random import SearchRandomTests
from tests.public_api.search_scopes import SearchScopeTests
from tests.public_api.search_tools import SearchToolTests
from tests.public_api.semantic_search import SemanticSearchTests
from tests.public_api.states import StatesTests
from tests.public_api.steps import SessionFixtures
from tests.public_api.succession import SuccessionTests
from tests.public_api.sweeps import SweepTests
from tests.public_api.turns import TurnTests
from tests.public_api.usage import UsageTests
from tests.public_api.windows import WindowTests


class PublicApiTests(
    SessionFixtures,
    ContextFixtures,
    ClockFixtures,
    MessageTests,
    AcceptedMessageTests,
    GuardedWriteTests,
    ReplacedMessageTests,
    BranchTests,
    WindowTests,
    PagingTests,
    ExplainingTests,
    PreparingTests,
    OverlayTests,
    ForkTests,
    DirectoryTests,
    ListingTests,
    LifecycleTests,
    ClosingTests,
    SweepTests,
    ErasureTests,
    HookTests,
    ContextTests,
    ContextToolTests,
    ScopeTests,
    SearchTests,
    SearchToolTests,
    SearchScopeTests,
    SearchRandomTests,
    ModelSearchTests,
    MemoryAttackTests,
    SemanticSearchTests,
    BackgroundCompactionTests,
    CompactionTests,
    CompactionCoverageTests,
    CompactionReportTests,
    CodingAgentTests,
    MemoryTests,
    GuestMemoryTests,
    TurnTests,
    SuccessionTests,
    EventTests,
    UsageTests,
    StatesTests,
    RandomHistoryTests,
):
    """The public API over the store that the fixture `store` supplies."""
