"""Long-term memory for LangGraph: `builder.compile(store=FrontdeskStore(manager))`."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from langgraph.store.base.embed import get_text_at_path

from frontdesk.checks import check_json
from frontdesk.integrations.langgraph.threads import key_in
from frontdesk.integrations.loop_thread import LoopThread
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.moments import now, to_datetime
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.states.shelves import Blob, one, starting_with

_NAME = "langgraph-store"
_ITEMS = starting_with(b"k")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

Namespace = tuple[str, ...]


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """An item. `value` is JSON, and `index` says what of it a query finds: None means all texts."""

    key: str
    created_at: int
    updated_at: int
    index: Literal[False] | list[str] | None
    value: str


_decode = msgspec.msgpack.Decoder(_Record).decode


class FrontdeskStore(BaseStore):
    """Stores items under namespaces, for graphs that are run with `invoke` or with `ainvoke`. Values are JSON objects.

    A search with a `query` returns the items that contain its words, the best first, in any language. Without a query,
    the items that were changed last come first.

    A namespace belongs to the guest whose key (`str(SessionKey(...))`) is one of its labels, or that `owner` returns
    for it, so that `SessionManager.erase` reaches it. Sync calls run in a thread with an event loop of its own, which
    `close` ends."""

    def __init__(
        self, manager: SessionManager, *, owner: Callable[[Namespace], SessionKey | None] | None = None
    ) -> None:
        self._manager = manager
        self._shelves = manager.shelves(_NAME)
        self._owner = owner or _owner_in
        self._loop = LoopThread()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See `abatch`."""
        given = [*ops]
        return self._loop.run(lambda: self.abatch(given))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: first those that read, then those that write. Of several writes to an item, the last
        counts. The writes to one namespace happen together, or not at all."""
        given = [*ops]
        for op in given:
            validate_op_namespace(op)
        results = [await self._read(op) for op in given]
        writes: dict[Namespace, dict[str, PutOp]] = {}
        for op in given:
            if isinstance(op, PutOp):
                writes.setdefault(op.namespace, {})[op.key] = op
        for namespace, items in writes.items():
            await self._write(namespace, items)
        return results

    def close(self) -> None:
        """Close the manager, and end the thread of sync calls. For programs without an event loop; others close the
        manager with `async with`."""
        self._loop.run(self._manager.close)
        self._loop.close()

    async def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return await self._get(op)
        if isinstance(op, SearchOp):
            return await self._search(op)
        if isinstance(op, ListNamespacesOp):
            return await self._list(op)
        return None

    async def _get(self, op: GetOp) -> Item | None:
        (found,) = (await self._shelves.read(_id(op.namespace), one(_key(op.key)))).found
        return _item(Item, op.namespace, _decode(found[0].value)) if found else None

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        found = [
            (record, item)
            async for namespace in self._namespaces(op.namespace_prefix)
            for record in await self._records(namespace)
            if _matches((item := _item(SearchItem, namespace, record)).value, op.filter or {})
        ]
        if op.query:
            texts = ("\n".join(_texts(record, item.value)) for record, item in found)
            ranked = rank_texts(op.query, texts, TOKENISER, consecutive=False)
            best = [found[index][1] for index, _ in ranked]
            for item, (_, score) in zip(best, ranked, strict=True):
                item.score = score
        else:
            found.sort(key=lambda each: -each[0].updated_at)
            best = [item for _, item in found]
        return best[op.offset : op.offset + op.limit]

    async def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            async for namespace in self._namespaces(())
            if all(_is_match(namespace, condition) for condition in conditions) and await self._records(namespace, 1)
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _namespaces(self, prefix: Namespace) -> AsyncIterator[Namespace]:
        async for id in self._shelves.ids(_id(prefix)):
            namespace = tuple(id.split("."))
            if namespace[: len(prefix)] == prefix:
                yield namespace

    async def _records(self, namespace: Namespace, limit: int = _ITEMS.limit) -> list[_Record]:
        read = await self._shelves.read(_id(namespace), _ITEMS._replace(limit=limit))
        return [_decode(blob.value) for blob in read.found[0]]

    async def _write(self, namespace: Namespace, items: Mapping[str, PutOp]) -> None:
        """Write items. One that is there already keeps the time of its creation."""
        values = {key: check_json(dict(op.value), "value") for key, op in items.items() if op.value is not None}
        while True:
            version, found = await self._shelves.read(_id(namespace), *(one(_key(key)) for key in values))
            if version is None and not values:
                return
            blobs = [_blob(items[key], values[key], before) for key, before in zip(values, found, strict=True)]
            written = await self._shelves.write(
                _id(namespace),
                put=dict(blobs),
                delete=[one(_key(key)) for key in items if key not in values],
                owner=self._owner(namespace),
                if_number=None if version is None else version.number,
            )
            if written is not None:
                return


def _owner_in(namespace: Namespace) -> SessionKey | None:
    return next((key for label in namespace if (key := key_in(label)) is not None), None)


def _id(namespace: Namespace) -> str:
    """Labels contain no periods."""
    return ".".join(namespace)


def _key(key: str) -> bytes:
    return b"k" + key.encode("utf-8", "surrogatepass")


def _blob(op: PutOp, value: str, before: list[Blob]) -> Blob:
    at = now()
    created_at = _decode(before[0].value).created_at if before else at
    record = _Record(op.key, created_at, at, op.index, value)
    return Blob(_key(op.key), msgspec.msgpack.encode(record))


def _item(kind: Any, namespace: Namespace, record: _Record) -> Any:
    return kind(
        namespace=namespace,
        key=record.key,
        value=msgspec.json.decode(record.value),
        created_at=to_datetime(record.created_at),
        updated_at=to_datetime(record.updated_at),
    )


def _texts(record: _Record, value: dict[str, Any]) -> Iterator[str]:
    """What a query finds of an item."""
    if record.index is None:
        yield record.key
        yield from _strings(value)
    elif record.index:
        for path in record.index:
            yield from get_text_at_path(value, path)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
    elif value is not None:
        yield str(value)


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value fits a filter: the parts that it names are equal, or compare as its operators say."""
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        return all(_compare(value, name, operand) for name, operand in wanted.items())
    return isinstance(value, dict) and all(_matches(value.get(name), each) for name, each in wanted.items())


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == operand) == (name == "$eq")
    if name not in _COMPARISONS:
        raise ValueError(f"unknown operator {name!r}: choose one of $eq, $ne, {', '.join(_COMPARISONS)}")
    try:
        return _COMPARISONS[name](value, operand)
    except TypeError:
        return False  # there is no such value, or it is of another kind


def _is_match(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
