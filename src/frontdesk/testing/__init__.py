"""Contracts for the author of a store: inherit one class, supply two fixtures, and every promise is tested.

    import pytest

    from frontdesk.testing import StoreContract


    class TestMyStore(StoreContract):  # for a store of typed states alone: StateContract
        @pytest.fixture
        async def store(self, tmp_path):
            store = MyStore(tmp_path / "my.db")
            yield store
            await store.close()

        @pytest.fixture
        def stored_text(self, tmp_path):
            return lambda: read_everything(tmp_path / "my.db")

`stored_text` returns an async function that reads everything the store keeps, past the store itself, as one text: the
contract searches it for content that was deleted.

The tests of vectors, typed states and shelves, which a store may lack, appear as `TestMyStore::TestVectors`,
`TestMyStore::TestStates` and `TestMyStore::TestShelves`. A store without one of them says so, as in
`TestVectors = None`; a test fails if that is not true of the store.

Needs the extra `frontdesk[testing]`, with pytest-asyncio in auto mode (`asyncio_mode = "auto"`), and the marker `long`
registered. Tests marked `long` run random histories for minutes: leave them out with `-m "not long"`.
"""

import pytest

pytest.register_assert_rewrite(
    "frontdesk.testing.shelf_contract", "frontdesk.testing.state_contract", "frontdesk.testing.store_contract"
)

from frontdesk.testing.inputs import StoredText  # noqa: E402
from frontdesk.testing.state_contract import StateContract  # noqa: E402
from frontdesk.testing.store_contract import StoreContract  # noqa: E402

__all__ = ["StateContract", "StoreContract", "StoredText"]
