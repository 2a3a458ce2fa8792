"""What a saver remembers of the checkpoints that it has stored or loaded last, so that it stores only what is new.

It is a shortcut, never the truth: a checkpoint that is not remembered is read, and a write that relies on something
that was deleted meanwhile is refused by the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from frontdesk.integrations.langgraph.lists import KnownList
from frontdesk.integrations.langgraph.records import CheckpointRecord

_MOST_CHECKPOINTS = 256
_MOST_ELEMENTS = 50_000
_CONSTANT = (str, bytes, int, float, type(None))

Where = tuple[str, str]
"""a thread, and a namespace of checkpoints"""


@dataclass(frozen=True)
class Known:
    """A checkpoint as stored, the edition of its shelf, and those of its lists whose elements are known."""

    record: CheckpointRecord
    edition: int
    lists: dict[str, KnownList] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return 1 + sum(len(each.objects or each.raws or ()) for each in self.lists.values())


class Recent:
    """The last checkpoint of each thread and namespace, and what its next step has written so far. Bounded, and safe
    for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Where, Known] = OrderedDict()
        self._touched: OrderedDict[tuple[str, str, str], list[object]] = OrderedDict()
        self._size = 0

    def get(self, where: Where, id: str) -> Known | None:
        with self._lock:
            known = self._known.get(where)
            return known if known is not None and known.record.id == id else None

    def put(self, where: Where, known: Known) -> None:
        with self._lock:
            self._drop(where)
            self._known[where] = known
            self._size += known.size
            while len(self._known) > 1 and (self._size > _MOST_ELEMENTS or len(self._known) > _MOST_CHECKPOINTS):
                self._drop(next(iter(self._known)))

    def forget(self, thread: str) -> None:
        with self._lock:
            for where in [where for where in self._known if where[0] == thread]:
                self._drop(where)

    def touch(self, where: Where, id: str, values: Sequence[object]) -> None:
        """Note the objects that the step after a checkpoint has written. Texts and numbers cannot change in place."""
        written = [each for value in values for each in (value if isinstance(value, list | tuple) else [value])]
        with self._lock:
            noted = self._touched.setdefault((*where, id), [])
            noted += [each for each in written if not isinstance(each, _CONSTANT)]
            while len(self._touched) > _MOST_CHECKPOINTS:
                self._touched.popitem(last=False)

    def take_touched(self, where: Where, id: str) -> list[object]:
        """What the step after a checkpoint has written, which is then forgotten."""
        with self._lock:
            return self._touched.pop((*where, id), [])

    def _drop(self, where: Where) -> None:
        known = self._known.pop(where, None)
        self._size -= 0 if known is None else known.size
