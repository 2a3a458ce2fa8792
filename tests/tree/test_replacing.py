"""What of a list is unchanged, from stored messages alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from frontdesk.testing.store_contract.steps import message
from frontdesk.tree.replacing import is_unchanged

STORED = message("m1", "said")


@pytest.mark.parametrize("change", [{"raw": '{"content":"other"}'}, {"role": "tool"}, {"derived": '{"text":"x"}'}])
def test_other_content_is_a_change(change: dict[str, str]) -> None:
    assert is_unchanged(STORED, STORED, fresh=False, given={"m1"})
    assert not is_unchanged(STORED, replace(STORED, **change), fresh=False, given={"m1"})


def test_time_and_tokens_are_no_change() -> None:
    assert is_unchanged(STORED, replace(STORED, created_at=5, tokens=1), fresh=False, given={"m1"})


def test_a_given_id_must_be_the_same_and_a_generated_one_need_not() -> None:
    other = replace(STORED, id="m2")
    assert not is_unchanged(STORED, other, fresh=False, given={"m2"})
    assert is_unchanged(STORED, other, fresh=True, given=())
    assert not is_unchanged(STORED, other, fresh=True, given={"m1"})
