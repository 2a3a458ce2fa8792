import pytest
from frontdesk.testing.store_contract import StoreContract
from frontdesk.testing.store_machine import StoreProperties
from frontdesk.testing.postgres import PostgresServer
from frontdesk.stores.postgres import PostgresStore
@pytest.fixture(scope="session")
def postgres():
    with PostgresServer() as server: yield server
@pytest.fixture
def postgres_url(postgres):
    url=postgres.create_database(); yield url; postgres.drop_database(url)
class TestPG(StoreContract, StoreProperties):
    @pytest.fixture
    async def store(self, postgres_url):
        s=PostgresStore.from_url(postgres_url); yield s; await s.close()
