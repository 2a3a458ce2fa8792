"""Fixtures of the suite, and short ways to write and read messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from frontdesk import Message, Session, SessionManager, Store
from frontdesk.messages import new_id


class SessionFixtures:
    """Each test has a namespace of its own, in the store that the fixture `store` of a subclass supplies."""

    @pytest.fixture
    def namespace(self) -> str:
        return f"contract-{new_id()}"

    @pytest.fixture
    async def manager(self, store: Store, namespace: str) -> AsyncIterator[SessionManager]:
        async with SessionManager(store, namespace=namespace) as manager:
            yield manager

    @pytest.fixture
    def session(self, manager: SessionManager) -> Session:
        return manager.session("chat")


def user(id: str, text: str | None = None) -> dict[str, Any]:
    """What a person says; without a text, the id is the text."""
    return {"id": id, "role": "user", "content": id if text is None else text}


def answer(id: str, text: str | None = None) -> dict[str, Any]:
    """A finished answer of the assistant; without a text, the id is the text."""
    return {"id": id, "role": "assistant", "content": id if text is None else text}


def system(id: str) -> dict[str, Any]:
    return {"id": id, "role": "system", "content": f"rule {id}"}


def call(id: str, *call_ids: str) -> dict[str, Any]:
    """An assistant message that calls a tool once for each call id."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "look", "arguments": '{"where": "here"}'}}
        for call_id in call_ids
    ]
    return {"id": id, "role": "assistant", "content": None, "tool_calls": calls}


def result(id: str, call_id: str) -> dict[str, Any]:
    """What the tool answered to a call."""
    return {"id": id, "role": "tool", "tool_call_id": call_id, "content": f"seen by {call_id}"}


async def say(session: Session, *message_ids: str) -> None:
    """Append user messages with these ids, one after the other."""
    await session.append_all([user(message_id) for message_id in message_ids])


async def view(session: Session, **options: Any) -> list[str]:
    """The view as texts."""
    return [message.text for message in await session.history(**options)]


async def path(session: Session, **options: Any) -> list[str]:
    """The transcript as ids."""
    return [message.id async for message in session.transcript(**options)]


def ids(messages: Iterable[Message]) -> list[str]:
    return [message.id for message in messages]
