"""What is left of Frontdesk on SQLite if everything around its statements cost nothing: the floor of its rows. The same
transactions on the same rows, called directly on a connection: no session, no queue, no thread, no event."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from bench.contenders.frontdesk import Frontdesk
from bench.payload import message
from frontdesk.messages import Message
from frontdesk.messages.ingestion import ingest
from frontdesk.messages.tokens import estimate_tokens
from frontdesk.moments import now
from frontdesk.store import Append, SessionQuery
from frontdesk.stores.sql import directory
from frontdesk.stores.sqlite import append, reading
from frontdesk.stores.sqlite.connections import DatabaseFile
from frontdesk.stores.sqlite.database import shared
from frontdesk.stores.sqlite.patience import Patience

_NAMESPACE = "default"
_page = shared(directory.page)


class BareStore:
    """Works on the file of a contender that is open."""

    name = "its statements alone"
    settings = "WAL, FULL, one connection"

    def __init__(self, contender: Frontdesk) -> None:
        database = DatabaseFile(str(contender.path), synchronous="full", busy_timeout=60)
        self._connection, _ = database.open(Patience(60), write=True)
        self._connection.set_busy_timeout(60_000)  # the contender may still write to its index

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close(True)

    async def append(self, session: str, numbers: range) -> None:
        """Messages in one call."""
        self._append([(session, numbers)])

    async def append_together(self, sessions: Iterable[str], numbers: Iterable[int]) -> None:
        """A message to each session, in one transaction."""
        self._append((session, [number]) for session, number in zip(sessions, numbers, strict=True))

    def _append(self, given: Iterable[tuple[str, Iterable[int]]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for session, numbers in given:
            moment = now()
            stored = [ingest(message(number), counter=estimate_tokens, now_us=moment) for number in numbers]
            request = Append(
                namespace=_NAMESPACE,
                session_id=session,
                messages=tuple(stored),
                fresh=(False,) * len(stored),
                now=moment,
            )
            append.append(self._connection, request)
        self._connection.execute("COMMIT")

    async def read(self, session: str, last: int | None = None) -> int:
        """The messages of the view, decoded."""
        view = reading.view(self._connection, _NAMESPACE, session, last)
        assert view is not None
        runs = [Message.from_run(piece.messages, piece.before_id) for piece in view.pieces]
        return len([found.raw for run in runs for found in run])

    async def page(self, limit: int) -> int:
        """The rows of the sessions that were active last."""
        return len(_page(self._connection, SessionQuery(namespace=_NAMESPACE, limit=limit)))
