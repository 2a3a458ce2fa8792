"""How often the start of a window changes while a conversation grows, for windows and conversations of many sizes."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from frontdesk import Message, SessionManager, estimate_tokens
from frontdesk.compaction.shorten import shorten
from frontdesk.history.fitting import Shortening, fit
from tests.public_api.steps import answer, call, user
from tests.public_api.windows import coding_agent, output

APPENDS = 500
Shape = Callable[[random.Random], Iterator[dict[str, Any]]]


def chat(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Short questions, and answers of up to a page."""
    for turn in range(APPENDS):
        yield user(f"q{turn}", "a question " * chance.randint(3, 40))
        yield answer(f"a{turn}", "some words " * chance.randint(10, 250))


def assistant(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Short turns with a few small tool outputs."""
    step = 0
    for turn in range(APPENDS):
        yield user(f"q{turn}", "make it so " * 10)
        for _ in range(chance.randint(1, 6)):
            yield call(f"c{step}", f"x{step}")
            yield output(step, chance.choice([100, 300, 900]))
            step += 1
        yield answer(f"a{turn}", "done " * 50)


def reader(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Long turns that read whole files."""
    step = 0
    for turn in range(APPENDS):
        yield user(f"q{turn}", "make it so " * 10)
        for _ in range(chance.randint(5, 40)):
            yield call(f"c{step}", f"x{step}")
            yield output(step, 8_000)
            step += 1
        yield answer(f"a{turn}")


async def conversation(shape: Shape, seed: int) -> list[Message]:
    async with SessionManager("memory://") as manager:
        messages = shape(random.Random(seed))
        await manager.append_all("s", [next(messages) for _ in range(APPENDS)])
        return await manager.history("s")


def shortening() -> Shortening:
    """The one of `WindowReader`; each message is shortened once."""

    @cache
    def earlier(message: Message) -> Message:
        return shorten(message, 500, 10_000, estimate_tokens)

    @cache
    def current(message: Message) -> Message:
        return shorten(message, 500, sys.maxsize, estimate_tokens) if message.tool_result_ids else message

    return Shortening(earlier, current)


def changes(messages: list[Message], room: int) -> int:
    """How many appends change what was in the window before them."""
    by, count, extent = shortening(), 0, 0
    before: list[Message] = []
    for index, message in enumerate(messages):
        extent += message.tokens
        window = fit(messages[: index + 1], extent, room, by, complete=True)
        assert sum(each.tokens for each in window) <= room
        count += window[: len(before)] != before
        before = window
    return count


@pytest.mark.parametrize(
    ("shape", "rooms"),
    [
        (assistant, (4_000, 8_000, 12_000, 16_000, 24_000, 32_000)),
        (chat, (8_000, 12_000, 16_000, 24_000, 32_000)),
        (coding_agent, (12_000, 16_000, 24_000, 32_000, 64_000)),
        (reader, (32_000, 64_000)),
    ],
)
@pytest.mark.parametrize("seed", [11, 12])
async def test_the_start_changes_at_most_at_every_twentieth_append(
    shape: Shape, rooms: Sequence[int], seed: int
) -> None:
    messages = await conversation(shape, seed)
    for room in rooms:
        assert changes(messages, room) <= APPENDS // 20, room


@pytest.mark.parametrize(
    ("shape", "room", "factor"),
    [(chat, 4_000, 1.0), (coding_agent, 4_000, 1.5), (coding_agent, 8_000, 1.5), (reader, 16_000, 1.2)],
)
async def test_the_start_of_a_small_window_changes_about_once_for_each_half_of_it(
    shape: Shape, room: int, factor: float
) -> None:
    """Twenty of these messages are longer than half of the window, so that it cannot stay the same for twenty appends.
    Where the last three tool outputs need about half of it, the steps are smaller."""
    messages = await conversation(shape, seed=11)
    half_windows = 2 * sum(message.tokens for message in messages) / room
    assert half_windows > APPENDS // 20
    assert changes(messages, room) <= factor * half_windows
