"""Questions in twelve languages, each with the message that should be among the first three hits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from frontdesk import SessionManager
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import Tokeniser
from search.conversations import CONVERSATIONS, INFLECTED, QUESTIONS

ASKED = [(language, text, number) for language, asked in QUESTIONS.items() for text, number in asked]
ASKED_IN_OTHER_FORMS = [(language, text, number) for language, asked in INFLECTED.items() for text, number in asked]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def manager() -> AsyncIterator[SessionManager]:
    """All conversations in one namespace, one session each."""
    async with SessionManager("memory://") as manager:
        for language, texts in CONVERSATIONS.items():
            roles = ("user", "assistant")
            messages = [
                {"id": f"{language}-{number}", "role": roles[number % 2], "content": text}
                for number, text in enumerate(texts)
            ]
            await manager.session(language).append_all(messages)
        yield manager


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("language", "text", "number"), ASKED)
async def test_the_answer_is_among_the_first_three(
    manager: SessionManager, language: str, text: str, number: int
) -> None:
    hits = await manager.session(language).search(text, limit=3)
    assert f"{language}-{number}" in [hit.message_id for hit in hits]
    assert any("**" in hit.snippet for hit in hits if hit.message_id == f"{language}-{number}")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("language", "text", "number"), [case for case in ASKED if "postgresql" not in case[1].lower()]
)
async def test_it_is_so_among_all_languages_together(
    manager: SessionManager, language: str, text: str, number: int
) -> None:
    hits = await manager.search(text, limit=5)
    assert f"{language}-{number}" in [hit.message_id for hit in hits]


@pytest.mark.parametrize(("language", "text", "number"), ASKED_IN_OTHER_FORMS)
def test_other_forms_of_a_word_are_found_in_the_language_that_was_chosen(language: str, text: str, number: int) -> None:
    ranked = rank_texts(text, CONVERSATIONS[language], Tokeniser(language), in_line=True)
    assert number in [index for index, _ in ranked[:3]]
