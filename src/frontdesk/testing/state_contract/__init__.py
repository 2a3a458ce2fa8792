"""The contract of a `StateStore`, one module for each subject."""

from __future__ import annotations

from frontdesk.testing.state_contract.expiry import ExpiryContract
from frontdesk.testing.state_contract.listing import ListingContract, OwnerContract
from frontdesk.testing.state_contract.random_histories import StateHistoryContract
from frontdesk.testing.state_contract.steps import StateFixtures
from frontdesk.testing.state_contract.storage import StorageContract
from frontdesk.testing.state_contract.typed_states import TypedStateContract
from frontdesk.testing.state_contract.typed_writes import MigrationContract, TypedWriteContract
from frontdesk.testing.state_contract.updates import UpdateContract


class StateContract(
    StateFixtures,
    StorageContract,
    ExpiryContract,
    UpdateContract,
    ListingContract,
    OwnerContract,
    TypedStateContract,
    TypedWriteContract,
    MigrationContract,
    StateHistoryContract,
):
    """Everything that users of a `StateStore`, and of `States` over it, rely on.

    A subclass supplies the fixtures `store` and `stored_text`. One database may serve all tests: each test has a
    namespace of its own.
    """
