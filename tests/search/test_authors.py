"""Authors: the filter in queries and arguments, on every store, before and after indexing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from frontdesk import Message, SearchResults, SessionManager
from tests.search.test_relevance import store_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def manager(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionManager]:
    async with SessionManager(store_url(request, tmp_path)) as manager:
        session = manager.session("team")
        said: list[tuple[str, str | None, str]] = [
            ("m1", "Ana Lima", "the lamp is in Oslo"),
            ("m2", "José", "the lamp is in Rome"),
            ("m3", None, "the lamp is in Bern"),
            ("m4", "Ana Costa", "the lamp is in Kyiv"),
            ("m6", "Jean-Luc", "the lamp is in Lyon"),
            ("m7", "eva.kern@example.org", "the lamp is in Graz"),
        ]
        await session.append_all([Message(id, "user", text, author=author) for id, author, text in said])
        await session.append({"id": "m5", "role": "assistant", "content": "the lamp is in Nice"})
        yield manager


def ids(results: SearchResults) -> set[str]:
    return {hit.message_id for hit in results}


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_only_messages_of_the_author_are_found(manager: SessionManager, is_indexed: bool) -> None:
    if is_indexed:
        await manager.reindex()
    cases: list[tuple[str, dict[str, Any], set[str]]] = [
        ("lamp from:ana", {}, {"m1", "m4"}),
        ('lamp from:"ana lima"', {}, {"m1"}),
        ("lamp from:jose", {}, {"m2"}),
        ("lamp from:jose from:lima", {}, {"m1", "m2"}),
        ("lamp from:assistant", {}, {"m5"}),
        ("lamp from:nobody", {}, set()),
        ("from:ana", {}, {"m1", "m4"}),
        ("lamp from:jean-luc", {}, {"m6"}),
        ("lamp from:luc", {}, {"m6"}),
        ("lamp from:jean.luc", {}, {"m6"}),
        ("lamp from:eva.kern", {}, {"m7"}),
        ("lamp from:ana-lima", {}, {"m1"}),
        ("lamp -from:ana", {}, {"m2", "m3", "m5", "m6", "m7"}),
        ('lamp -from:"ana lima" -from:jean-luc', {}, {"m2", "m3", "m4", "m5", "m7"}),
        ("lamp -from:assistant -from:jose", {}, {"m1", "m3", "m4", "m6", "m7"}),
        ("lamp from:ana -from:lima", {}, {"m4"}),
        ("-from:ana oslo", {}, set()),
        ("lamp", {"author": "Ana Costa"}, {"m4"}),
        ("lamp", {"author": "JOSÉ"}, {"m2"}),
    ]
    for query, arguments, expected in cases:
        assert ids(await manager.search(query, **arguments)) == expected, query
        assert ids(await manager.session("team").search(query, **arguments)) == expected, query


async def test_a_hit_names_its_author_and_the_author_is_found_by_name(manager: SessionManager) -> None:
    found = {hit.message_id: hit for hit in await manager.search("lima")}
    assert set(found) == {"m1"}
    assert found["m1"].author == "Ana Lima"
    assert found["m1"].snippet == "Ana **Lima**: the lamp is in Oslo"


async def test_what_the_named_author_said_comes_first(manager: SessionManager) -> None:
    for name, expected in (("José", "m2"), ("Lima", "m1"), ("Costa", "m4")):
        hits = await manager.session("team").search(f"where did {name} see the lamp?")
        assert hits[0].message_id == expected
