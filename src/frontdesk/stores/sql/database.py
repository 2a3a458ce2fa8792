"""The seam between this package and a store: how a statement that is written once becomes a statement of one database,
and what a store supplies.

The operations are coroutines that take a `Database`. On PostgreSQL they wait for the server. On SQLite nothing that
they await suspends, so that a thread runs an operation to its end in a single step (`run`).

A statement names its parameters (`:session`), puts `{schema}.` before a table, and contains words in braces where
databases differ:

- `{here}`: the value of `ns` in the rows of the namespace `:namespace`
- `{ns}`, `{ns x}`: the condition that a row (of the alias x) belongs to the namespace `:ns`, and AND; empty where the
  numbers of sessions, segments and so on are enough to find a row. `{ns,}` and `{:ns,}` are the same for the columns of
  a key or an INSERT, and for its values; `{same x y}` for the rows of two aliases; `{in_here}` with `{here}`.
- `{now}`: the time of the store, in microseconds
- `{lock}`, `{share}`, `{share_key}`: what locks the rows that a SELECT returns until the end of the transaction
- `{keep}`: what leaves the row with the same key as it is, at the end of an INSERT; `{replace key: columns}` sets these
  columns of it
- `{of_message}`, `{in_span}`: the condition on the message at `:position` of `:segment`, and on those from `:first` to
  `:last`
- `{by index}`: after a table, the name of the index to use, for a database that needs the hint
- `{minute ...}`: what a database adds that indexes the time of the last activity by the minute; otherwise nothing
- `{numbers}`: the list `:numbers`, as a table with the columns number and place
- `{, due}`: at the end of SET for a state, what moves its `due` with its `ttl`
- `{new_ns}`: `{here}`, of a namespace that is made if it is new; `{number,}`, `{:number,}`: the column and a new number
  for the owner of documents, where the database does not draw it; `{skip_locked}`: `{lock}` for rows that are not
  locked; `{block_version}`: which version of the block `:label` a prompt `p` shows, by the JSON in `p.blocks`;
  `{sum_of_costs}`: the sum of `u.cost`, or all of them with spaces in between
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

from frontdesk.store import NewChange

T = TypeVar("T")
Kind = Literal["session", "segment", "overlay", "edit"]
SHARED = 0
"""the session number of what belongs to a whole namespace"""

_REPLACE = re.compile(r"\{replace ([^:}]+): ([^}]+)\}")
_WITH_ALIAS = re.compile(r"\{ns (\w+)\}")
_MINUTE = re.compile(r"\{(?:\w+ )?minute[^}]*\}")
_BY = re.compile(r"\{by (\w+)\}")
_SAME = re.compile(r"\{same (\w+) (\w+)\}")
_PARAMETER = re.compile(r"(?<!:):([a-z]\w*)")
_MOST = 5_000
"""statements that are kept: how many filters a statement has is up to the caller"""


class Statement(NamedTuple):
    """A statement as a driver takes it, the names of the values for its parameters, in their order, and what picks
    those out of a mapping."""

    text: str
    names: tuple[str, ...]
    pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]


class Dialect(dict[str, Statement]):
    """How one database writes statements, and those that were translated, by their texts.

    `parameter` comes before the number of a parameter. `words` are the meanings of the words in braces. `has_ns` says
    whether the namespace is a part of every key, `by` how an index is named, if it is."""

    def __init__(self, parameter: str, words: Mapping[str, str], *, has_ns: bool, by: str = "") -> None:
        super().__init__()
        self._parameter = parameter
        of_key = ("ns = :ns AND", "ns,", ":ns,") if has_ns else ("", "", "")
        self._words = {**dict(zip(("{ns}", "{ns,}", "{:ns,}"), of_key, strict=True)), **words}
        self._with_alias = r"\1.ns = :ns AND" if has_ns else ""
        self._by = by
        self._same = r"\1.ns = \2.ns AND" if has_ns else ""

    def __missing__(self, text: str) -> Statement:
        if len(self) >= _MOST:
            self.clear()
        written = _BY.sub(self._by, _SAME.sub(self._same, _WITH_ALIAS.sub(self._with_alias, text)))
        for word, meaning in self._words.items():
            written = written.replace(word, meaning)
        written = _MINUTE.sub("", written)
        written = _REPLACE.sub(lambda match: _replaced(*match.groups()), written)
        names: dict[str, int] = {}

        def number(match: re.Match[str]) -> str:
            return f"{self._parameter}{names.setdefault(match[1], len(names) + 1)}"

        written = _PARAMETER.sub(number, written)
        done = self[text] = Statement(written, tuple(names), _picker(tuple(names)))
        return done


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)


def _replaced(key: str, columns: str) -> str:
    """What sets columns of the row with the same key to those of an INSERT, at its end."""
    values = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
    return f"ON CONFLICT ({key}) DO UPDATE SET {values}"


class Row(Protocol):
    """The values of a row, by their places."""

    @overload
    def __getitem__(self, index: int, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection, on which an operation runs: it executes statements, and does what each store does in its own way.

    `ns` is the value of that column for a namespace: a store chooses what it is. `peers_in_order` says whether the
    sessions of a peer have an index in the order of their activity."""

    @property
    def peers_in_order(self) -> bool: ...

    async def fetch(self, text: str, /, **values: Any) -> Sequence[Row]: ...
    async def fetch_row(self, text: str, /, **values: Any) -> Row | None: ...
    async def fetch_value(self, text: str, /, **values: Any) -> Any:
        """The first value of the first row, None if there is none."""

    async def execute(self, text: str, /, **values: Any) -> int:
        """How many rows a statement has changed."""

    async def fetch_many(self, text: str, values: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        """All rows of a statement that is executed with each of these values in turn."""

    async def execute_many(self, text: str, values: Sequence[Mapping[str, Any]], *, unlimited: bool = False) -> None:
        """Execute a statement with each of these values; `unlimited`: however long it takes."""

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """A transaction, or a part of the one in progress."""

    async def namespace(self, name: str) -> Any:
        """The `ns` of a namespace, which is made if it is new."""

    def ns_of(self, number: int) -> Any:
        """The `ns` of a session, where the numbers alone are not enough to find a row; None otherwise."""

    async def draw(self, ns: Any, kind: Kind, count: int) -> list[int]:
        """Numbers that none ever had, in ascending order. Sessions and trees share theirs."""

    async def size(self) -> int:
        """The size of the store in bytes."""

    async def log(self, ns: Any, session: int, at: int, changes: Sequence[NewChange]) -> None:
        """Add entries of a session whose row is locked, or (`SHARED`) of the namespace, to the change log."""


def run(operation: Coroutine[Any, Any, T]) -> T:
    """The result of an operation on a database whose calls do not suspend."""
    try:
        operation.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    operation.close()
    raise RuntimeError("an operation of a store without an event loop has waited for something")
