"""Lets the assertions of the shipped contracts explain themselves when they fail."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "frontdesk.testing.state_contract", "frontdesk.testing.store_contract", "frontdesk.testing.store_machine"
)
