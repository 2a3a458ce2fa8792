"""The public API keeps every promise through a `Client` and a real server, too."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from frontdesk.store import Store
from frontdesk.stores import open_url
from tests.public_api import PublicApiTests
from tests.public_api.served import ServedManager, close_all

OF_ONE_PROCESS = {
    "a handle of the server lasts for one request, so it has no blocks and no prompt of its own": (
        "test_a_turn_has_the_blocks_and_the_prompt_of_its_handle",
        "test_a_new_session_in_a_turn_has_the_blocks_of_the_handle",
        "test_another_worker_without_a_shared_prompt_sees_no_contradiction",
        "test_without_a_cached_prompt_the_prompt_is_frozen_only_in_the_handle",
        "test_a_prompt_that_was_frozen_before_the_session_existed_counts_towards_the_window",
        "test_workers_of_two_deploys_do_not_replace_each_others_prompt",
        "test_settings_are_final_after_first_use_but_a_handle_may_add_blocks",
        "test_blocks_and_the_local_prompt_of_a_handle_are_those_of_its_turns",
        "test_reads_with_providers_create_no_session",
        "test_every_change_is_an_event",
    ),
    "a function cannot be sent: scopes and reports of progress": (
        "test_nothing_of_a_hidden_session_is_shown",
        "test_a_hidden_session_looks_like_a_missing_one",
        "test_a_visible_fork_shows_its_messages_even_if_its_source_is_hidden",
        "test_messages_that_a_fork_removed_or_changed_stay_hidden_with_its_source",
        "test_a_hidden_fork_does_not_hide_the_messages_of_its_source",
        "test_summaries_are_hidden_by_the_same_rule",
        "test_counts_include_only_visible_messages",
        "test_a_scope_that_raises_hides_everything",
        "test_a_function_decides_for_each_session",
        "test_other_guests_do_not_crowd_out_ones_own_messages",
        "test_a_filter_that_many_sessions_pass_is_part_of_the_query",
        "test_a_function_is_asked_about_a_limited_number_of_sessions",
        "test_a_function_that_hides_much_is_asked_again_from_where_it_stopped",
        "test_an_operators_scope_holds_against_the_same_attacks",
        "test_the_scope_is_part_of_a_search_by_meaning",
        "test_reindexing_reports_its_progress",
        "test_a_search_finds_what_a_naive_model_finds_after_random_work",
        "test_the_pages_of_a_search_have_everything_once_after_random_work",
    ),
    "an error of the application's own functions is in the log of the server, and is a StoreError here": (
        "test_a_fact_counts_as_known_only_after_the_sink_accepted_it",
        "test_if_a_full_block_cannot_be_rewritten_nothing_is_lost",
        "test_a_failing_summariser_is_retried_then_reported_and_then_paused",
        "test_a_split_without_a_summary_leaves_the_session_active",
        "test_a_failed_compaction_is_an_event_with_the_name_of_the_error",
        "test_a_source_that_no_split_makes_small_enough_is_one_failure",
        "test_a_failed_summary_for_a_new_session_is_a_failed_compaction",
    ),
    "an answer is sent while it is read: what happens later is not in it": (
        "test_a_stream_leaves_out_nothing_that_is_changed_while_it_is_read",
        "test_a_stream_of_a_session_that_is_deleted_meanwhile_raises",
        "test_a_stream_does_not_continue_in_another_session_that_gets_the_id",
        "test_a_stream_ends_when_the_messages_are_cleared_meanwhile",
    ),
    "what a request has begun is finished, although its caller is cancelled": (
        "test_a_cancelled_compaction_is_reported_as_failed",
    ),
    "an address has at most 64 KB, and this filter is longer": ("test_metadata_filters_compare_top_level_values",),
    "tests/client has the test for tools of an id that is used again: their text is another one": (
        "test_an_id_that_is_used_again_grants_nothing",
    ),
    "they look at the tasks of the process that calls, or at which of them has a turn (tests/client splits in one)": (
        "test_the_holder_of_a_turn_splits_its_session_and_goes_on",
        "test_one_compaction_runs_at_a_time_across_handles_and_managers",
    ),
    "they take minutes, in one process or over HTTP, and the short tests send the same calls": (
        "test_many_long_random_histories_match_the_naive_model",
        "test_coverage_holds_in_many_random_histories",
        "test_each_of_three_thousand_guests_finds_exactly_their_own_secret",
        "test_nothing_that_is_remembered_of_three_thousand_guests_is_shown_to_another",
        "test_nothing_that_is_remembered_of_a_guest_is_shown_to_another",
        "test_no_crowd_of_guests_hides_ones_own_secret_or_shows_another",
        "test_every_message_is_visible_or_covered_once_and_each_summary_is_made_from_what_it_covers",
        "test_a_search_finds_what_a_naive_model_finds_after_much_random_work",
        "test_the_pages_of_a_search_have_everything_once_after_much_random_work",
        "test_a_path_of_a_million_messages_streams",
    ),
}
"""what does not apply to a client, and why"""


class TestClient(PublicApiTests):
    """On SQLite. In the modules of the suite, `SessionManager` is one that is used over HTTP."""

    examples = 4
    keeps_answers = True

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = open_url(f"sqlite:///{tmp_path}/sessions.db")
        yield store
        await store.close()

    @pytest.fixture(autouse=True)
    async def _over_http(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        for name, module in [*sys.modules.items()]:
            if name.startswith("tests.public_api.") and hasattr(module, "SessionManager") and name not in _OWN:
                monkeypatch.setattr(module, "SessionManager", ServedManager)
        yield
        await close_all()


_OWN = ("tests.public_api.served", __name__)
for _names in OF_ONE_PROCESS.values():
    for _name in _names:
        assert callable(getattr(PublicApiTests, _name)), _name
        setattr(TestClient, _name, None)
