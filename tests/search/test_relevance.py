"""Questions in eleven languages and in code, each with its answer among the first hits, in any store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from frontdesk import SearchHit, SessionManager
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import Tokeniser
from tests.search.conversations import CONVERSATIONS, INFLECTED, QUESTIONS
from tests.servers.postgres import PostgresServer

ASKED_IN_OTHER_FORMS = [(language, text, number) for language, asked in INFLECTED.items() for text, number in asked]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["memory", "sqlite", "postgres"])
async def manager(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SessionManager]:
    """All conversations in one namespace, one session each."""
    async with SessionManager(store_url(request, tmp_path_factory.mktemp("relevance"))) as manager:
        for language, texts in CONVERSATIONS.items():
            roles = ("user", "assistant")
            messages = [
                {"id": f"{language}-{number}", "role": roles[number % 2], "content": text}
                for number, text in enumerate(texts)
            ]
            await manager.session(language).append_all(messages)
        yield manager


def store_url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create_database()
    return "memory://" if request.param == "memory" else f"sqlite:///{folder}/relevance.db"


def answer_in(hits: list[SearchHit], language: str, number: int) -> SearchHit | None:
    return next((hit for hit in hits if hit.message_id == f"{language}-{number}"), None)


def test_the_questions_are_many_and_balanced() -> None:
    assert sum(map(len, QUESTIONS.values())) >= 300
    assert min(map(len, QUESTIONS.values())) >= 25
    for language, asked in QUESTIONS.items():
        assert {number for _, number in asked} == set(range(len(CONVERSATIONS[language])))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("language", QUESTIONS)
async def test_the_answer_is_among_the_first_three(manager: SessionManager, language: str) -> None:
    missed = []
    for text, number in QUESTIONS[language]:
        hits = await manager.session(language).search(text, limit=3)
        answer = answer_in(list(hits), language, number)
        if answer is None or "**" not in answer.snippet:
            missed.append((text, CONVERSATIONS[language][number]))
    assert missed == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("language", QUESTIONS)
async def test_the_answer_is_found_among_all_languages_together(manager: SessionManager, language: str) -> None:
    missed = []
    for text, number in QUESTIONS[language]:
        if "postgresql" in text.lower():
            continue
        hits = await manager.search(text, limit=5)
        if answer_in(list(hits), language, number) is None:
            missed.append((text, [hit.snippet for hit in hits]))
    assert missed == []


@pytest.mark.parametrize(("language", "text", "number"), ASKED_IN_OTHER_FORMS)
def test_other_forms_of_a_word_are_found_in_the_chosen_language(language: str, text: str, number: int) -> None:
    ranked = rank_texts(text, CONVERSATIONS[language], Tokeniser(language), consecutive=True)
    assert number in [index for index, _ in ranked[:3]]
