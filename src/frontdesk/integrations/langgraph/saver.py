"""A checkpoint saver for LangGraph: `builder.compile(checkpointer=FrontdeskSaver(manager))`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from frontdesk.errors import InvalidInputError
from frontdesk.integrations.langgraph import records
from frontdesk.integrations.langgraph.drafting import NewCheckpoint
from frontdesk.integrations.langgraph.records import CheckpointRecord, WriteRecord
from frontdesk.integrations.langgraph.threads import Loaded, Threads
from frontdesk.integrations.loop_thread import LoopThread
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.states.shelves import BlobRange

_END = object()


class FrontdeskSaver(BaseCheckpointSaver[int]):
    """Stores the checkpoints of LangGraph, for graphs that are run with `invoke` or with `ainvoke`.

    Lists, such as that of the messages, are stored element by element: a step adds what is new, and shares the rest
    with the checkpoint before it. An element is new if it is another object than before, or if the step returned it.

    A thread belongs to the guest whose key its id is (`str(SessionKey(...))`), or that `owner` returns for its id, so
    that `SessionManager.erase` reaches it. Sync calls run in a thread with an event loop of its own, which `close`
    ends."""

    def __init__(
        self,
        manager: SessionManager,
        *,
        owner: Callable[[str], SessionKey | None] | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._manager = manager
        self._threads = Threads(manager, owner)
        self._loop = LoopThread()

    # async

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, as a whole or not at all."""
        new = NewCheckpoint(
            ns=_ns(config),
            parent=get_checkpoint_id(config),
            checkpoint=checkpoint,
            metadata=get_checkpoint_metadata(config, metadata),
            new_versions=new_versions,
        )
        await self._threads.put(_thread(config), new, self.serde)
        return _config(config["configurable"]["thread_id"], new.ns, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task of the step after a checkpoint has written."""
        thread, ns, id = _thread(config), _ns(config), config["configurable"]["checkpoint_id"]
        self._threads.touch(thread, ns, id, [value for _, value in writes])
        rows = [
            WriteRecord(task_path, task_id, WRITES_IDX_MAP.get(channel, index), channel, self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
        await self._threads.put_writes(thread, ns, id, rows)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint with the given id, or the latest one of the thread; None if there is none."""
        thread, ns, id = _thread(config), _ns(config), get_checkpoint_id(config)
        loaded = await self._threads.load(thread, ns, id, self.serde, remember=True)
        return None if loaded is None else self._tuple(config["configurable"]["thread_id"], loaded)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread, newest first in each namespace; without a config, those of all threads."""
        left = limit
        async for thread, record in self._records(config, before):
            if left is not None and left <= 0:
                return
            metadata = self.serde.loads_typed(record.metadata)
            if any(metadata.get(name) != wanted for name, wanted in (filter or {}).items()):
                continue
            loaded = await self._threads.load(thread, record.ns, record.id, self.serde, remember=False)
            if loaded is not None:
                left = None if left is None else left - 1
                yield self._tuple(thread, loaded)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that is stored of a thread."""
        await self._threads.delete(str(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, in all threads, with what no other checkpoint needs."""
        async for thread in self._threads.ids():
            await self._threads.delete_run(thread, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Replace a thread with a copy of another one. A thread that does not exist is not copied."""
        await self._threads.copy(str(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the latest checkpoint of each namespace of these threads, with the earlier ones that its delta
        channels need, or ("delete") delete the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInputError(f"a strategy must be keep_latest or delete, not {strategy!r}")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                await self._threads.delete(thread)
            else:
                await self._threads.keep(thread, lambda found: _latest(found, self.serde))

    # sync

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._loop.run(lambda: self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._loop.run(lambda: self.aput_writes(config, writes, task_id, task_path))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._loop.run(lambda: self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        found = self.alist(config, filter=filter, before=before, limit=limit)
        while (each := self._loop.run(lambda: anext(found, _END))) is not _END:
            assert isinstance(each, CheckpointTuple)
            yield each

    def delete_thread(self, thread_id: str) -> None:
        self._loop.run(lambda: self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._loop.run(lambda: self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._loop.run(lambda: self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._loop.run(lambda: self.aprune(thread_ids, strategy=strategy))

    def close(self) -> None:
        """Close the manager, and end the thread of sync calls. For programs without an event loop; others close the
        manager with `async with`."""
        self._loop.run(self._manager.close)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def _records(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> AsyncIterator[tuple[str, CheckpointRecord]]:
        """The checkpoints that `alist` looks at."""
        configurable = {} if config is None else config["configurable"]
        ns, id = configurable.get("checkpoint_ns"), configurable.get("checkpoint_id")
        end = None if before is None else get_checkpoint_id(before)
        async for thread in self._thread_ids(configurable):
            wanted = records.CHECKPOINTS if ns is None else records.checkpoints_of(ns)
            if ns is not None and end is not None:
                wanted = BlobRange(wanted.first, records.checkpoint_key(ns, end))
            while page := await self._threads.page(thread, wanted):
                for record in page:
                    if (id is None or record.id == id) and (end is None or record.id < end):
                        yield thread, record
                wanted = wanted._replace(end=records.checkpoint_key(page[-1].ns, page[-1].id))

    async def _thread_ids(self, configurable: dict[str, Any]) -> AsyncIterator[str]:
        if "thread_id" in configurable:
            yield str(configurable["thread_id"])
        else:
            async for thread in self._threads.ids():
                yield thread

    def _tuple(self, thread: Any, loaded: Loaded) -> CheckpointTuple:
        record, values, writes = loaded
        return CheckpointTuple(
            config=_config(thread, record.ns, record.id),
            checkpoint=cast("Checkpoint", {**self.serde.loads_typed(record.checkpoint), "channel_values": values}),
            metadata=self.serde.loads_typed(record.metadata),
            parent_config=None if record.parent is None else _config(thread, record.ns, record.parent),
            pending_writes=[(each.task_id, each.channel, self.serde.loads_typed(each.value)) for each in writes],
        )


def _latest(found: Sequence[CheckpointRecord], serde: SerializerProtocol) -> list[CheckpointRecord]:
    """The latest checkpoint of each namespace. For its delta channels, also those before it, back to the one that has a
    value: the value of such a channel is made from the writes since then."""
    by_id = {(each.ns, each.id): each for each in found}
    kept = []
    for latest in {each.ns: each for each in sorted(found, key=lambda each: each.id)}.values():
        metadata = serde.loads_typed(latest.metadata)
        missing = set(metadata.get("counters_since_delta_snapshot") or ()) - latest.values.keys()
        kept.append(latest)
        current = latest
        while missing and (parent := by_id.get((current.ns, current.parent or ""))) is not None:
            kept.append(parent)
            missing -= parent.values.keys()
            current = parent
    return kept


def _config(thread: Any, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _ns(config: RunnableConfig) -> str:
    ns: str = config["configurable"].get("checkpoint_ns", "")
    return ns
