"""Reads the elements of a large JSON array one by one, so that only one of them is in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from frontdesk.transfer.transcripts.steps import TranscriptFile

_CHUNK = 1 << 20
LONGEST = 512 * 1024 * 1024
"""bytes of an element; reading stops at a longer one"""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_UNFINISHED = re.compile(rb'"')


class ElementTooLongError(Exception):
    """An element is too long to be read."""


def read_elements(source: TranscriptFile) -> Iterator[bytes]:
    """The objects in the array that a file consists of, as text, or the one object that it is. What was cut off is
    the last element. Raises `ElementTooLongError`."""
    splitter = _Splitter()
    with source.path.open("rb") as file:
        while chunk := file.read(max(_CHUNK, splitter.pending)):  # a very long string is not scanned again
            yield from splitter.feed(chunk)
            source.advance(file.tell())
    if splitter.rest():
        yield splitter.rest()


class _Splitter:
    """Finds where objects begin and end. It looks only at brackets that are outside of strings."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._begin: int | None = None
        self._depth = 0

    @property
    def pending(self) -> int:
        """How much of the buffer has to be scanned again, because it ends in a string."""
        return len(self._buffer) - self._scanned

    def rest(self) -> bytes:
        return b"" if self._begin is None else bytes(self._buffer[self._begin :])

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        self._buffer += chunk
        if len(self._buffer) > LONGEST:
            raise ElementTooLongError
        data = bytes(self._buffer)
        for token in _TOKEN.finditer(data, self._scanned):
            self._scanned = token.end()
            element = self._take(token, data)
            if element is not None:
                yield element
        self._skip_to_string(data)
        self._forget()

    def _take(self, token: re.Match[bytes], data: bytes) -> bytes | None:
        """An object of the array, if it ends here."""
        match token.group():
            case b"{":
                if self._begin is None:
                    self._begin, self._depth = token.start(), 0
                self._depth += 1
            case b"}" if self._begin is not None:
                self._depth -= 1
                if self._depth == 0:
                    begin, self._begin = self._begin, None
                    return data[begin : token.end()]
        return None

    def _skip_to_string(self, data: bytes) -> None:
        """Everything up to a string that is not complete has been scanned."""
        string = _UNFINISHED.search(data, self._scanned)
        self._scanned = len(data) if string is None else string.start()

    def _forget(self) -> None:
        """Drop what belongs to no element."""
        used = self._scanned if self._begin is None else self._begin
        del self._buffer[:used]
        self._scanned -= used
        if self._begin is not None:
            self._begin = 0
