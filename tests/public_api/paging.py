"""Pages of a path by position, and the model's view with the origin of each item."""

from __future__ import annotations

from typing import Any

import pytest

from frontdesk import InvalidInputError, MessageNotFoundError, PathPage, Session, SessionManager, ViewPage
from tests.public_api.steps import answer, call, result, say, user


def shown(page: PathPage) -> list[tuple[int, str]]:
    return [(entry.position, entry.message.id) for entry in page.entries]


def items(page: ViewPage) -> list[tuple[str, int | None, int]]:
    return [(item.kind, item.position, item.covered) for item in page.items]


def reasons(page: ViewPage) -> list[tuple[Any, ...]]:
    return [(each.reason, each.messages, each.first, each.last) for each in page.missing]


class PagingTests:
    async def test_a_path_is_read_by_position_in_both_directions(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(10)))
        last = await session.page(limit=3)
        assert (last.leaf_id, last.first, last.total) == ("m9", 7, 10)
        assert shown(last) == [(7, "m7"), (8, "m8"), (9, "m9")]
        before = await session.page(position=last.first - 3, limit=3)
        assert shown(before) == [(4, "m4"), (5, "m5"), (6, "m6")]
        after = await session.page(position=before.first + 3, limit=3)
        assert after == last
        assert shown(await session.page(position=9, limit=3)) == [(9, "m9")]
        assert (await session.page(position=10)).entries == ()
        assert shown(await session.page(position=0, limit=2)) == [(0, "m0"), (1, "m1")]
        whole = await session.page(limit=1000)
        assert [entry.message async for entry in _each(whole)] == [each async for each in session.transcript()]

    async def test_a_page_around_a_message_shows_what_was_said_before_and_after_it(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(10)))
        assert shown(await session.page(around="m5", limit=3)) == [(4, "m4"), (5, "m5"), (6, "m6")]
        assert shown(await session.page(around="m0", limit=3)) == [(0, "m0"), (1, "m1"), (2, "m2")]
        assert shown(await session.page(around="m9", limit=3)) == [(7, "m7"), (8, "m8"), (9, "m9")]

    async def test_a_page_names_the_other_versions_of_a_message(self, session: Session) -> None:
        await say(session, "m0", "m1", "m2")
        await session.append(user("other"), parent="m0")
        await session.append(user("third"), parent="m0")
        page = await session.page()
        assert shown(page) == [(0, "m0"), (1, "third")]
        assert [entry.siblings for entry in page.entries] == [(), ("m1", "other", "third")]
        first = await session.page(leaf="m2")
        assert [entry.siblings for entry in first.entries] == [(), ("m1", "other", "third"), ()]
        assert first.leaf_id == "m2"
        with pytest.raises(MessageNotFoundError):
            await session.page(around="m1")  # on another branch than the head

    async def test_a_page_says_which_messages_a_compaction_covers(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(6)))
        inner = await session.add_compaction("two", "m1", "m2")
        outer = await session.add_compaction("four", "m1", "m4")
        covered = [entry.compaction_id for entry in (await session.page()).entries]
        assert covered == [None, *[outer.id] * 4, None]
        await session.undo_compaction(outer.id)
        covered = [entry.compaction_id for entry in (await session.page()).entries]
        assert covered == [None, inner.id, inner.id, None, None, None]

    async def test_a_session_that_was_never_written_to_has_empty_pages(self, session: Session) -> None:
        assert await session.page() == PathPage(None, 0, 0, ())
        assert await session.view() == ViewPage(None, 0, 0, 0, (), ())
        for options in ({"leaf": "m1"}, {"around": "m1"}):
            with pytest.raises(MessageNotFoundError):
                await session.page(**options)  # type: ignore[arg-type]

    async def test_wrong_pages_are_refused(self, session: Session) -> None:
        await say(session, "m0")
        for options in ({"limit": 0}, {"limit": 1001}, {"limit": None}, {"position": -1}, {"position": True}):
            with pytest.raises(InvalidInputError):
                await session.page(**options)
            with pytest.raises(InvalidInputError):
                await session.view(**options)
        with pytest.raises(InvalidInputError):
            await session.page(position=0, around="m0")

    async def test_the_view_says_what_each_item_is_and_what_is_missing(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(6)))
        await session.append(user("b5"), parent="m4")
        made = await session.add_compaction("in short", "m1", "m3")
        view = await session.view()
        assert items(view) == [("message", 0, 0), ("summary", 1, 3), ("message", 4, 0), ("message", 5, 0)]
        assert [item.message for item in view.items] == await session.history()
        assert view.items[1].compaction_id == made.id
        assert reasons(view) == [("summary", 3, 1, 3), ("branch", 1, None, None)]
        assert view.missing[0].tokens == sum([(await session.get_message(f"m{n}")).tokens for n in (1, 2, 3)])
        assert view.missing[1].tokens == (await session.get_message("m5")).tokens
        assert view.tokens == (await session.info()).token_count
        other = await session.view(leaf="m5")
        assert (other.leaf_id, reasons(other)) == ("m5", [("summary", 3, 1, 3), ("branch", 1, None, None)])

    async def test_a_reset_is_a_reason(self, manager: SessionManager, session: Session) -> None:
        await say(session, "m0", "m1")
        await manager.reset("chat")
        await say(session, "m2")
        view = await session.view()
        assert (items(view), reasons(view)) == ([("message", 2, 0)], [("reset", 2, 0, 1)])

    async def test_the_view_is_read_in_pages(self, session: Session) -> None:
        await say(session, *(f"m{number}" for number in range(8)))
        await session.add_compaction("in short", "m1", "m3")
        whole = await session.view()
        assert (whole.first, whole.total) == (0, 6)
        last = await session.view(limit=2)
        assert (last.first, last.total, last.items) == (4, 6, whole.items[4:])
        assert (await session.view(position=1, limit=3)).items == whole.items[1:4]
        assert last.missing == whole.missing

    async def test_the_view_in_a_window_says_what_was_shortened_and_left_out(self, session: Session) -> None:
        for number in range(6):
            await session.append(user(f"q{number}", "where is it? " * 10))
            await session.append(call(f"a{number}", f"c{number}"))
            await session.append({**result(f"r{number}", f"c{number}"), "content": "far away " * 400})
            await session.append(answer(f"e{number}"))
        await session.append(user("now"))
        full = await session.view()
        room = full.tokens // 2
        view = await session.view(max_tokens=room)
        assert view.tokens == sum(item.tokens for item in view.items) <= room
        assert [item.message for item in view.items] == await session.history(max_tokens=room)
        originals = {item.message.id: item.tokens for item in full.items}
        assert all(item.original_tokens == originals[item.message.id] for item in view.items)
        short = [item for item in view.items if item.tokens < item.original_tokens]
        assert short
        assert {item.message.role for item in short} == {"tool"}
        little = await session.view(max_tokens=full.tokens // 12)
        [left_out] = little.missing
        assert (left_out.reason, left_out.messages) == ("window", full.total - little.total)
        assert left_out.tokens + sum(item.original_tokens for item in little.items) == full.tokens
        positions = {item.message.id: item.position for item in full.items}
        assert all(item.position == positions[item.message.id] for item in little.items)


async def _each(page: PathPage) -> Any:
    for entry in page.entries:
        yield entry
