"""An index that another version of the package made: the newer version wins, and no search has a gap."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from frontdesk import SessionManager
from frontdesk.search.tokeniser import VERSION, Tokeniser
from frontdesk.store import IndexBatch, IndexState
from tests.search.conversations import CONVERSATIONS
from tests.search.test_relevance import store_url

FINGERPRINTS = {4: "84046fc54960ece3"}
"""for each version of the tokeniser, a hash of the terms that it makes of `SAMPLES`"""
SAMPLES = (
    *(text for texts in CONVERSATIONS.values() for text in texts),
    "iPhone parseHTMLFile foo_bar_77 /data/report-2.csv v1.2.3-rc1 node:20.11.1-alpine lodash@4.17.21 C++ Node.js",
    "550e8400-e29b-41d4-a716-446655440000 9fceb02d0ae598e95dc970b74767f19372d61af8 1,000 4.200 dont colour went",
    "wi\u2011fi wont 1,000, 骯髒",
)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def manager(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionManager]:
    async with SessionManager(store_url(request, tmp_path)) as manager:
        await manager.append("chat", {"id": "m1", "role": "user", "content": "the amber lamp"})
        await manager.reindex()
        yield manager


async def state_of(manager: SessionManager) -> IndexState:
    row = await manager._runtime.store.index_state(manager.namespace)
    assert row is not None
    return row.state


async def make_with_version(manager: SessionManager, version: int) -> None:
    """Mark the index as one that was made by another version."""
    state = await state_of(manager)
    made = re.sub(r"tokeniser \d+", f"tokeniser {version}", state.made_with)
    changed = msgspec.structs.replace(state, made_with=made)
    batch = IndexBatch(namespace=manager.namespace, replaces=state, state=changed)
    assert await manager._runtime.store.write_index(batch)


async def assert_found(manager: SessionManager, *ids: str) -> None:
    assert {hit.message_id for hit in await manager.search("lamp")} == set(ids)
    assert {hit.message_id for hit in await manager.session("chat").search("lamp")} == set(ids)


async def test_an_older_version_never_builds_the_index_of_a_newer_one_again(manager: SessionManager) -> None:
    await make_with_version(manager, 999)
    newer = await state_of(manager)
    await assert_found(manager, "m1")
    await manager.append("chat", {"id": "m2", "role": "user", "content": "another lamp"})
    await assert_found(manager, "m1", "m2")
    await manager.reindex()
    await assert_found(manager, "m1", "m2")
    assert await state_of(manager) == newer


async def test_the_index_of_an_older_version_is_built_again_in_the_background(manager: SessionManager) -> None:
    current = (await state_of(manager)).made_with
    await make_with_version(manager, 0)
    await manager.append("chat", {"id": "m2", "role": "user", "content": "another lamp"})
    async with asyncio.timeout(60):
        while (await state_of(manager)).made_with != current:
            await assert_found(manager, "m1", "m2")
    await assert_found(manager, "m1", "m2")


def test_whatever_changes_terms_raises_the_version_of_the_tokeniser() -> None:
    """If this fails, raise `VERSION`, so that existing indexes are built again, and add its fingerprint."""
    terms = [Tokeniser(language).terms(text) for language in ("english", "german") for text in SAMPLES]
    assert hashlib.sha256(json.dumps(terms).encode()).hexdigest()[:16] == FINGERPRINTS[VERSION]
