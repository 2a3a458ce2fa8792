"""Pure: fits the end of a view into a number of tokens, in steps, so that the start of what is kept (and with it the
prefix that a provider has cached) stays the same from call to call.

Nothing has to be remembered for that. The *extent* of a view is the sum of its tokens, counted from its beginning. It
grows with every append, and the extents above the room are divided into steps. What is kept is decided once for a whole
step: from the messages that are there when the step begins, and so that it still fits when the step ends. Example: the
room is 1,000 and a step 500. From an extent of 1,001 up to 1,500 the same messages are left out and shortened, as many
as must be at 1,500.

So the start changes once for each half of the room that is appended. It changes more often only if the last tool
results, which stay whole, and the rest of a shortened turn need more than the other half: then the steps are smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from frontdesk.history.turns import current_request, turn_starts, whole_pairs
from frontdesk.messages import Message

_SHARES = (2, 4, 8)
"""a step is this part of the room: the largest one that is possible"""
_RECENT_RESULTS = 3
"""tool results at the end that are shortened only if nothing else helps"""


class MoreNeededError(Exception):
    """Older messages must be read before anything can be decided."""


class TooLongError(Exception):
    """The current turn does not fit, even shortened."""

    def __init__(self, needed: int) -> None:
        self.needed = needed


@dataclass(frozen=True)
class Shortening:
    """How messages are shortened: those of earlier turns, and the tool outputs of the current one."""

    earlier: Callable[[Message], Message]
    current: Callable[[Message], Message]


@dataclass(frozen=True)
class _Step:
    """A range of extents, from above `low` to `high`."""

    low: int
    high: int


class _Fitting:
    """The messages that were read so far, the last one of the view among them."""

    def __init__(self, messages: Sequence[Message], extent: int, room: int, by: Shortening, *, complete: bool) -> None:
        self._messages = messages
        self._room = room
        self._complete = complete
        sizes = [0 if message.is_summary else message.tokens for message in messages]
        self._ends = list(accumulate(sizes, initial=extent - sum(sizes)))
        """the extent before each message, and after the last one"""
        pairs = whole_pairs(messages, complete=complete)
        self._starts = [start for start in turn_starts(messages, complete=complete) if pairs[start]]
        if complete and not self._starts:
            self._starts = [_start_without_turns(messages, pairs)]
        self._by = by
        self._shortened: dict[tuple[int, bool], Message] = {}

    def choose(self) -> list[Message]:
        """What is kept. Raises `MoreNeededError`, `TooLongError`.

        Everything is tried for a large step before a smaller one is: a long current turn loses old outputs earlier, but
        the start does not change at every append."""
        for step in self._steps():
            for way in (self._shorten_earlier, self._drop_earlier, self._shorten_current):
                kept = way(step)
                if kept is not None:
                    return kept
        return self._shorten_everything()

    def _steps(self) -> Iterator[_Step]:
        """The steps that the view is in, the largest first, and finally only this extent."""
        extent = self._ends[-1]
        for share in _SHARES:
            size = self._room // share
            if size > 0:
                low = self._room + (extent - self._room - 1) // size * size
                yield _Step(low, low + size)
        yield _Step(extent, extent)

    def _known(self, step: _Step) -> int:
        """How many of the messages are there when the step begins."""
        return sum(end <= step.low for end in self._ends[1:])

    def _turn(self, step: _Step) -> int | None:
        """Where the turn begins that is the current one when the step begins; None if there is none yet."""
        known = self._known(step)
        start = max((start for start in self._starts if start < known), default=None)
        if start is None and not self._complete:
            raise MoreNeededError
        return start

    def _shorten_earlier(self, step: _Step) -> list[Message] | None:
        """Everything, with the earlier turns shortened."""
        turn = self._turn(step)
        if turn is None:
            return None
        used = step.high - self._ends[turn]
        for index in range(turn - 1, -1, -1):
            used += self._tokens(index, is_earlier=True)
            if used > self._room:
                return None
        if used > self._room:
            return None
        if not self._complete:
            raise MoreNeededError
        return self._kept(0, turn, turn)

    def _drop_earlier(self, step: _Step) -> list[Message] | None:
        """As many of the earlier turns as fit, shortened, and the rest as it is."""
        turn = self._turn(step)
        if turn is None:
            return None
        used = step.high - self._ends[turn]
        if used > self._room:
            return None
        first, starts = turn, set(self._starts)
        for index in range(turn - 1, -1, -1):
            used += self._tokens(index, is_earlier=True)
            if used > self._room:
                return self._kept(first, turn, turn)
            if index in starts:
                first = index
        if not self._complete:
            raise MoreNeededError
        return self._kept(first, turn, turn)

    def _shorten_current(self, step: _Step) -> list[Message] | None:
        """The current turn alone, with its oldest tool outputs shortened, but not the most recent ones."""
        turn = self._turn(step)
        return None if turn is None else self._shorten_until(turn, self._recent(self._known(step)), step.high)

    def _shorten_everything(self) -> list[Message]:
        """The same, up to the last output if need be."""
        turn, extent = self._starts[-1], self._ends[-1]
        kept = self._shorten_until(turn, len(self._messages), extent)
        if kept is None:
            raise TooLongError(sum(self._tokens(index, is_earlier=False) for index in range(turn, len(self._messages))))
        return kept

    def _shorten_until(self, turn: int, most: int, high: int) -> list[Message] | None:
        used = high - self._ends[turn]
        for index in range(turn, most):
            if used <= self._room:
                return self._kept(turn, turn, index)
            used += self._tokens(index, is_earlier=False) - (self._ends[index + 1] - self._ends[index])
        return self._kept(turn, turn, max(turn, most)) if used <= self._room else None

    def _recent(self, known: int) -> int:
        """Where the last tool results of the first `known` messages begin; 0 if there are no more than those."""
        left = _RECENT_RESULTS
        for index in range(known - 1, -1, -1):
            left -= len(self._messages[index].tool_result_ids)
            if left <= 0:
                return index
        return 0

    def _kept(self, first: int, turn: int, shortened: int) -> list[Message]:
        """The messages from `first` on, shortened before `turn`, and from there up to `shortened`; and of those before
        `first` the summaries."""
        return [
            *(message for message in self._messages[:first] if message.is_summary),
            *(self._shorten(index, is_earlier=True) for index in range(first, turn)),
            *(self._shorten(index, is_earlier=False) for index in range(turn, shortened)),
            *self._messages[shortened:],
        ]

    def _tokens(self, index: int, *, is_earlier: bool) -> int:
        """The tokens of a message once it is shortened. Summaries are not counted: room is kept for them."""
        return 0 if self._messages[index].is_summary else self._shorten(index, is_earlier=is_earlier).tokens

    def _shorten(self, index: int, *, is_earlier: bool) -> Message:
        known = self._shortened.get((index, is_earlier))
        if known is None:
            message = self._messages[index]
            known = self._by.earlier(message) if is_earlier else self._by.current(message)
            self._shortened[index, is_earlier] = known
        return known


def _start_without_turns(messages: Sequence[Message], pairs: Sequence[bool]) -> int:
    """Where what must stay begins if no turn does: at the current request, or the last message, or at the tool call
    whose result comes later. Example: a conversation that begins with a tool call, before the user says anything."""
    first = next(iter(current_request(messages)), len(messages) - 1)
    return max(index for index in range(first + 1) if pairs[index])


def fit(messages: Sequence[Message], extent: int, room: int, by: Shortening, *, complete: bool) -> list[Message]:
    """What is kept of a view whose last `messages` are given (all of it, if `complete`), so that it has at most `room`
    tokens, summaries not counted; `extent` is the number of tokens of the whole view, counted in the same way.

    Every summary stays, and so does the current turn. What goes first: long tool outputs of earlier turns, then whole
    turns, the oldest first, then the oldest tool outputs of the current turn. Raises `MoreNeededError` if older
    messages are needed, and `TooLongError`."""
    if extent <= room:
        if not complete:
            raise MoreNeededError
        return list(messages)
    return _Fitting(messages, extent, room, by, complete=complete).choose()
