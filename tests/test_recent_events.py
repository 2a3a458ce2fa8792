"""`recent_events`: the last events of the log, newest first, whatever is in front of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from frontdesk import InvalidInputError, SessionKey, SessionManager
from tests.public_api.steps import say, user


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/desk.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def test_the_last_events_come_newest_first(url: str) -> None:
    async with SessionManager(url, namespace="recent") as manager:
        assert await manager.recent_events() == []
        ana, ben = [await manager.create(key=SessionKey("bot", "web", peer)) for peer in ("ana", "ben")]
        await ben.append(user("only"))
        # One entry of the log with many events, of which only the last ones are wanted.
        await ana.append_all([user(f"m{number}") for number in range(300)])
        await say(ana, "end")
        everything = [event async for event in manager.events(after="start", follow=False)]
        for count in (1, 2, 150, 1000):
            assert await manager.recent_events(count) == everything[::-1][:count]
        [last, created] = await manager.recent_events(session=ben.id)
        assert (last.message_id, created.kind) == ("only", "session.created")
        assert await manager.recent_events(1, peer="ben") == [last]
        [newest] = await manager.recent_events(1)
        await say(ana, "later")
        following = [event.message_id async for event in manager.events(after=newest.position, follow=False)]
        assert following == ["later"]
        for wrong in (0, 1001, True):
            with pytest.raises(InvalidInputError):
                await manager.recent_events(wrong)


async def test_it_looks_back_as_far_as_needed(tmp_path: Path) -> None:
    async with SessionManager(f"sqlite:///{tmp_path}/desk.db") as manager:
        await say(manager.session("quiet"), "early")
        for number in range(1500):
            await manager.session("busy").append(user(f"m{number}"))
        found = await manager.recent_events(5, session="quiet")
        assert [(event.kind, event.message_id) for event in found] == [
            ("message.appended", "early"),
            ("session.created", None),
        ]
