"""How a thread is laid out on its shelf: the records, and the keys that they are under.

A checkpoint is one record. It holds short values itself, and says where the others are. A list is stored element by
element, under numbers: a value is then a few runs of numbers, and the next value shares those that have not changed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from frontdesk.states.shelves import BlobRange, one, starting_with

Typed = tuple[str, bytes]
"""a value as LangGraph's serializer writes it: the name of the encoding, and the bytes"""
Run = tuple[int, int]
"""consecutive elements: the number of the first, and how many"""

EVERYTHING = BlobRange(b"", b"\xff")
CHECKPOINTS = starting_with(b"c")


class Inline(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """A short value."""

    encoding: str
    data: bytes


class Stored(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """A value that has a blob of its own, which was stored by the checkpoint with this id."""

    by: str


class Elements(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """A list."""

    runs: list[Run]


Value = Inline | Stored | Elements


class CheckpointRecord(msgspec.Struct, frozen=True, array_like=True):
    id: str
    ns: str
    parent: str | None
    checkpoint: Typed
    metadata: Typed
    versions: dict[str, Any]
    """of the channels"""
    values: dict[str, Value]
    run_id: str | None


class WriteRecord(msgspec.Struct, frozen=True, array_like=True):
    task_path: str
    task_id: str
    index: int
    channel: str
    value: Typed


encode = msgspec.msgpack.Encoder().encode
decode_checkpoint = msgspec.msgpack.Decoder(CheckpointRecord).decode
decode_write = msgspec.msgpack.Decoder(WriteRecord).decode
decode_typed = msgspec.msgpack.Decoder(Typed).decode


def checkpoint_key(ns: str, id: str) -> bytes:
    """The checkpoints of a namespace are in the order of their ids, which is that of their times."""
    return b"c" + _digest(ns) + id.encode()


def checkpoints_of(ns: str) -> BlobRange:
    return starting_with(b"c" + _digest(ns), backwards=True)


def value_key(ns: str, channel: str, by: str) -> bytes:
    return b"v" + _digest(ns) + _digest(channel) + _digest(by)


def element_key(ns: str, channel: str, number: int) -> bytes:
    return b"e" + _digest(ns) + _digest(channel) + number.to_bytes(8)


def elements(ns: str, channel: str, run: Run) -> BlobRange:
    first, count = run
    return BlobRange(element_key(ns, channel, first), element_key(ns, channel, first + count))


def elements_from(ns: str, channel: str, number: int, *, backwards: bool = False) -> BlobRange:
    """All elements of a channel from a number on."""
    return BlobRange(element_key(ns, channel, number), element_key(ns, channel, 2**64 - 1), backwards=backwards)


def number_of(key: bytes) -> int:
    """The number of an element."""
    return int.from_bytes(key[-8:])


def write_key(ns: str, id: str, task_id: str, index: int) -> bytes:
    return b"w" + _digest(ns) + _digest(id) + _digest(task_id) + (index + 2**31).to_bytes(4)


def writes_of(ns: str, id: str) -> BlobRange:
    return starting_with(b"w" + _digest(ns) + _digest(id))


def run_key(run_id: str, ns: str, id: str) -> bytes:
    return b"r" + _digest(run_id) + _digest(ns) + _digest(id)


def checkpoints_by_run(run_id: str) -> BlobRange:
    return starting_with(b"r" + _digest(run_id))


def traces_of(record: CheckpointRecord) -> list[BlobRange]:
    """All of a checkpoint but its values, which it may share."""
    traces = [one(checkpoint_key(record.ns, record.id)), writes_of(record.ns, record.id)]
    return traces if record.run_id is None else [*traces, one(run_key(record.run_id, record.ns, record.id))]


def _digest(text: str) -> bytes:
    """Of a fixed length, since a key must be short, and a name may be long."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
