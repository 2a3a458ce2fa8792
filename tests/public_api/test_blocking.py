"""The public API keeps every promise through `frontdesk.sync`, too."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

from frontdesk import sync
from frontdesk.store import Store
from frontdesk.stores import open_url
from tests.public_api import PublicApiTests
from tests.public_api.blocking import BlockingManager, BlockingSession, close_all, loop_of_the_test

NOT_BLOCKING = {
    "a call in a thread cannot be cancelled": (
        "test_new_that_is_cancelled_leaves_the_turn_free",
        "test_a_waiter_that_timed_out_or_was_cancelled_leaves_the_queue",
        "test_a_cancelled_compaction_is_reported_as_failed",
        "test_an_interrupted_erasure_is_finished_by_calling_it_again",
        "test_events_end_when_the_manager_is_closed_or_the_task_is_cancelled",
    ),
    "an iterator reads up to 256 items before they are used": (
        "test_iterating_skips_what_is_deleted_or_no_longer_matches",
        "test_iterating_while_sessions_change_returns_each_unchanged_one_once",
    ),
    "they ask which objects of the async API they have": (
        "test_a_turn_is_the_session_and_creates_it_if_needed",
        "test_a_turn_inside_a_turn_is_the_same_turn",
    ),
    "they look at the tasks of the process": ("test_one_compaction_runs_at_a_time_across_handles_and_managers",),
    "they take long, and other tests make the same calls": (
        "test_no_crowd_of_guests_hides_ones_own_secret_or_shows_another",
        "test_each_of_three_thousand_guests_finds_exactly_their_own_secret",
        "test_nothing_that_is_remembered_of_three_thousand_guests_is_shown_to_another",
        "test_every_message_is_visible_or_covered_once_and_each_summary_is_made_from_what_it_covers",
        "test_coverage_holds_in_many_random_histories",
        "test_many_long_random_histories_match_the_naive_model",
        "test_a_search_finds_what_a_naive_model_finds_after_much_random_work",
        "test_the_pages_of_a_search_have_everything_once_after_much_random_work",
        "test_a_good_embedding_finds_more_and_a_poor_one_hardly_less",
        "test_every_match_of_a_common_word_is_on_some_page",
        "test_a_position_of_now_misses_nothing",
        "test_a_path_of_a_million_messages_streams",
    ),
}
"""what does not apply to calls that block, and why"""


class TestBlocking(PublicApiTests):
    """In memory. In the modules of the suite, `SessionManager` is one that passes its calls on to `frontdesk.sync`."""

    examples = 4

    @pytest.fixture
    async def store(self) -> Store:
        return open_url("memory://")

    @pytest.fixture(autouse=True)
    async def _in_threads(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        monkeypatch.setattr(sync, "_loop_thread", loop_of_the_test())
        for name, module in [*sys.modules.items()]:
            if name.startswith("tests.public_api.") and hasattr(module, "SessionManager") and name not in _OWN:
                monkeypatch.setattr(module, "SessionManager", BlockingManager)
        for name in ("closing", "directory"):
            monkeypatch.setattr(sys.modules[f"tests.public_api.{name}"], "Session", BlockingSession)
        yield
        await close_all()


_OWN = ("tests.public_api.served", "tests.public_api.test_client")
for _names in NOT_BLOCKING.values():
    for _name in _names:
        assert callable(getattr(PublicApiTests, _name)), _name
        setattr(TestBlocking, _name, None)
