"""Trying again after another writer was first. A call that is overtaken every time must end, too."""

from __future__ import annotations

import random

from frontdesk import deadlines
from frontdesk.errors import ConcurrentChangeError
from frontdesk.unattended import sleep

_AT_ONCE = 4
"""attempts without a pause between them"""
_LONGEST_PAUSE = 0.05
_LONGEST_CALL = 30.0
"""seconds for which a call is tried again on a store that has no time limit of its own"""


class Attempts:
    """The attempts of a call that others may overtake: some at once, then with pauses that grow, until it has taken as
    long as calls of the store may take (`timeout`). `subject` and `details` are for the error: what the call is about.
    """

    __slots__ = ("_details", "_seconds", "_subject", "made")

    def __init__(self, store: object, subject: str, **details: str) -> None:
        assert deadlines.is_in_call(), "attempts have no end outside `one_call`"
        self._seconds = getattr(store, "timeout", _LONGEST_CALL)
        self._subject = subject
        self._details = details
        self.made = 0

    @property
    def are_over(self) -> bool:
        """Whether there is no time left for another one. There is always time for the first."""
        return self.made > 0 and deadlines.left(self._seconds) <= 0

    async def another(self) -> None:
        """Wait until it is time to try, or to try again. Raises `ConcurrentChangeError` once they are over."""
        if self.are_over:
            raise ConcurrentChangeError(
                f"{self._subject} was changed by others {self.made} times in a row, and nothing was written: try again",
                **self._details,
            )
        if self.made >= _AT_ONCE:
            # So that the writer that was first can finish.
            await sleep(random.uniform(0, min(0.001 * self.made, _LONGEST_PAUSE)))  # noqa: S311 (not a secret)
        self.made += 1
