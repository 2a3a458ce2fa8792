"""Long-term memory for LangGraph: `builder.compile(store=FrontdeskStore(manager))`."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

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

from frontdesk.integrations.langgraph.items import ItemRecord, Items, rank_items
from frontdesk.integrations.langgraph.threads import key_in
from frontdesk.integrations.loop_thread import LoopThread
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.moments import to_datetime
from frontdesk.search.query import parse
from frontdesk.search.ranking import Statistics
from frontdesk.search.tokeniser import TOKENISER

_NAME = "langgraph-store"
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

Namespace = tuple[str, ...]
Filter = dict[str, Any]


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
            await self._items(namespace).write(items, self._owner(namespace))
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
        record = await self._items(op.namespace).get(op.key)
        return None if record is None else _item(Item, op.namespace, record)

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        if op.query:
            found = await self._matching(op.namespace_prefix, op.query, op.filter or {}, end)
        else:
            found = await self._newest(op.namespace_prefix, op.filter or {}, end)
        return found[op.offset : end]

    async def _matching(self, prefix: Namespace, text: str, wanted: Filter, limit: int) -> list[SearchItem]:
        """The items that match a query and a filter, the best first."""
        query, statistics = parse(text, TOKENISER), Statistics()
        found = [
            (namespace, record)
            async for namespace in self._namespaces(prefix)
            for record in await self._items(namespace).match(query, statistics)
        ]
        ranked = rank_items(query, [record for _, record in found], statistics)
        items = (_item(SearchItem, *found[index], score=score) for index, score in ranked)
        return [*islice((item for item in items if _matches(item.value, wanted)), limit)]

    async def _newest(self, prefix: Namespace, wanted: Filter, limit: int) -> list[SearchItem]:
        """The items that match a filter, the one that was changed last first."""
        found: list[SearchItem] = []
        async for namespace in self._namespaces(prefix):
            left = limit
            async for record in self._items(namespace).newest():
                if left == 0:
                    break
                item = _item(SearchItem, namespace, record)
                if _matches(item.value, wanted):
                    found.append(item)
                    left -= 1
        return sorted(found, key=lambda item: item.updated_at, reverse=True)

    async def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            async for namespace in self._namespaces(_fixed_prefix(conditions))
            if all(_is_match(namespace, condition) for condition in conditions)
            and not await self._items(namespace).is_empty()
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _namespaces(self, prefix: Namespace) -> AsyncIterator[Namespace]:
        async for id in self._shelves.ids(_id(prefix)):
            namespace = tuple(id.split("."))
            if namespace[: len(prefix)] == prefix:
                yield namespace

    def _items(self, namespace: Namespace) -> Items:
        return Items(self._shelves, _id(namespace))


def _owner_in(namespace: Namespace) -> SessionKey | None:
    return next((key for label in namespace if (key := key_in(label)) is not None), None)


def _id(namespace: Namespace) -> str:
    """Labels contain no periods."""
    return ".".join(namespace)


def _item(kind: Any, namespace: Namespace, record: ItemRecord, **more: Any) -> Any:
    return kind(
        namespace=namespace,
        key=record.key,
        value=msgspec.json.decode(record.value),
        created_at=to_datetime(record.created_at),
        updated_at=to_datetime(record.updated_at),
        **more,
    )


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


def _fixed_prefix(conditions: Sequence[MatchCondition]) -> Namespace:
    """The labels that all namespaces begin with which meet the conditions."""
    paths = [condition.path for condition in conditions if condition.match_type == "prefix"]
    return tuple(takewhile(lambda label: label != "*", paths[0])) if paths else ()


def _is_match(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
