"""Ids: which texts are accepted, and new ids, which sort by their time."""

from __future__ import annotations

import os
import threading
import time

from frontdesk.errors import InvalidIdError

SUMMARY_PREFIX = "frontdesk-summary:"
"""how the id of a summary's synthetic message begins; the id of its compaction follows"""
MAX_ID_LENGTH = 512


def check_id(value: object, what: str = "id", most: int = MAX_ID_LENGTH) -> str:
    """Return `value` if it can be an id of at most `most` characters; otherwise raise `InvalidIdError`, which calls it
    `what`."""
    if type(value) is not str:
        raise InvalidIdError(f"{what} must be a string, not {type(value).__name__}")
    if not 0 < len(value) <= most:
        raise InvalidIdError(f"{what} must have 1 to {most} characters, not {len(value)}", length=len(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidIdError(f"{what} {value!r} contains a lone surrogate, which is not text") from None
    if "\0" in value:
        raise InvalidIdError(f"{what} {value!r} contains a NUL character")
    return value


class _IdSource:
    """Time-ordered ids (UUID version 7); each is greater than the one before it in this process."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._prefix = ""
        self._sequence = 0
        self._random: list[str] = []

    def next(self) -> str:
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._milliseconds:
                self._enter(now)
            elif self._sequence == 0xFFF:
                self._enter(self._milliseconds + 1)
            else:
                self._sequence += 1
            if not self._random:
                self._random = _random_ends()
            return f"{self._prefix}{self._sequence:03x}{self._random.pop()}"

    def _enter(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds
        self._sequence = 0
        self._prefix = f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7"


def _random_ends() -> list[str]:
    """The last two groups of 256 ids: the variant, and 62 random bits."""
    pool = os.urandom(256 * 8)
    variants = ("8", "9", "a", "b")
    ends = (pool[start : start + 8].hex() for start in range(0, len(pool), 8))
    return [f"-{variants[int(end[0], 16) & 3]}{end[1:4]}-{end[4:]}" for end in ends]


_ids = _IdSource()
# A child must neither repeat its parent's randomness nor inherit a lock that some other thread held.
os.register_at_fork(after_in_child=_ids.restart)

new_id = _ids.next
