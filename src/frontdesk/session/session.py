"""`Session`, `Turn` and `StandaloneSession`: the public calls on one conversation. They only delegate; the components
behind them are connected in `components`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar, overload

from msgspec.structs import replace

from frontdesk.checks import check_count, check_format
from frontdesk.config.builder import Configurable
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.settings import Declaration
from frontdesk.context.blocks import BlockVersion, ContextBlock
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.transitions import MANAGER_DEFAULT, ManagerDefault
from frontdesk.messages import Message, formats
from frontdesk.messages.formats import MessageFormat
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.records import Appended, Compaction, CompactionResult, ContextUsage, SessionInfo
from frontdesk.search.request import parse_request
from frontdesk.search.results import SearchResults
from frontdesk.search.session_search import search_session
from frontdesk.session.components import Components
from frontdesk.session.handle import Handle
from frontdesk.session.turns import DEFAULT_TTL, Duration, Holding, OnBusy, TurnRequest, hold, turn_request
from frontdesk.session.writing import Given
from frontdesk.store import FOLLOW_HEAD, FollowHead, Store
from frontdesk.tools import Tool

R = TypeVar("R")
"""the result of some work"""


class Session:
    """A handle on one session. Making it does no I/O; the session is created by its first write.

    A handle made from a key finds (or, writing, makes) the current session at its first I/O, and stays with it."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None:
        self._runtime = runtime
        self._parts = Components(Handle(runtime, ref))

    @classmethod
    def create(
        cls,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        clock: Clock | None = None,
    ) -> StandaloneSession:
        """One conversation without a manager, called "default" unless `for_session` says otherwise."""
        return StandaloneSession(Runtime(store, namespace, max_message_bytes, clock), "default")

    def __repr__(self) -> str:
        handle = self._parts.handle
        return f"Session({handle.id if handle.is_resolved else handle.key!r}, namespace={self._runtime.namespace!r})"

    @property
    def id(self) -> str:
        """The session's id. A handle made from a key learns it at its first I/O; before, `ConfigurationError`."""
        return self._parts.handle.id

    async def info(self) -> SessionInfo:
        """What is known of the session. Raises `SessionNotFoundError` if nobody has written to it yet."""
        return await self._parts.reader.info()

    # turns

    @overload
    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: Literal["wait", "reject", "interrupt"] = "wait",
    ) -> AbstractAsyncContextManager[Turn]: ...

    @overload
    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: Literal["queue"],
        message: Given,
    ) -> AbstractAsyncContextManager[Turn | None]: ...

    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: OnBusy = "wait",
        message: Given | None = None,
    ) -> AbstractAsyncContextManager[Any]:
        """The exclusive right to extend the session, over all workers, for `async with`; makes the session if needed.

        It is renewed by itself, and passes to the next worker `ttl` seconds after its holder died. `on_busy` says what
        to do while another worker has it: "wait" in the queue, `wait` seconds or (None) as long as it takes; "reject";
        "interrupt" the holder and take over at once; "queue" the `message` for the holder, and get None in place of a
        `Turn`. With "queue" the message comes from `Turn.take_queued`, in every case. Raises `TurnBusyError`."""
        stored = None if message is None else self._parts.writer.ingest(message, self._runtime.now())
        return self._hold(turn_request(wait, ttl, on_busy, stored))

    def _hold(self, request: TurnRequest) -> AbstractAsyncContextManager[Turn | None]:
        return hold(self._parts.handle, request, lambda holding: Turn(self._parts, holding))

    # writing messages

    async def append(
        self,
        message: Given,
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> Appended:
        """Store a message after the head, after `parent`, or (`parent=None`) as a new root, and make it the head.

        When it returns, the message is durable. An id that the session already has is a no-op with `inserted=False`.
        A session that a sweep archived continues; one that was suspended or ended otherwise raises `SessionEndedError`
        unless `reopen` is given.
        Raises `InvalidMessageError`, `MessageTooLargeError`, `HeadMovedError`, `MessageNotFoundError`."""
        (appended,) = await self._parts.writer.append(
            [message], parent=parent, expected_head=expected_head, reopen=reopen
        )
        return appended

    async def append_all(
        self,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> list[Appended]:
        """Store messages one after the other, all or none; one that is there already is skipped, and the next follows
        it. Raises as `append` does."""
        return await self._parts.writer.append(messages, parent=parent, expected_head=expected_head, reopen=reopen)

    async def upsert(self, message: Given, *, reopen: bool = False) -> Appended:
        """Replace the message that has this id and keep its position, or append it as `append` does. Atomic; `inserted`
        says which."""
        return await self._parts.writer.upsert(message, FOLLOW_HEAD, reopen=reopen)

    async def update_message(self, message: Given) -> Message:
        """Replace the content of the message that has this id; unchanged content writes nothing.

        Raises `MessageNotFoundError`, `InvalidMessageError`."""
        return await self._parts.writer.update(message)

    async def delete_messages(self, ids: Iterable[str]) -> int:
        """Remove messages for good, on any branch; those after them stay connected, a deleted head falls back.

        Returns how many were there. A summary's id raises `InvalidMessageError`."""
        return await self._parts.writer.delete(ids)

    async def clear_messages(self) -> None:
        """Remove all messages and overlays of the session for good; name, tags, metadata and usage stay."""
        await self._parts.writer.clear()

    async def switch(self, leaf: str) -> Message:
        """Make a message the head, so that the next append follows it. Raises `MessageNotFoundError`."""
        await self._parts.writer.switch(leaf)
        return await self._parts.reader.message(leaf)

    # reading messages

    @overload
    async def history(
        self, *, leaf: str | None = None, last: int | None = None, max_tokens: int | None = None, format: None = None
    ) -> list[Message]: ...

    @overload
    async def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat,
    ) -> list[dict[str, Any]]: ...

    async def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat | None = None,
    ) -> list[Message] | list[dict[str, Any]]:
        """What the model sees: the path to the head (or `leaf`) with overlays applied, oldest first.

        `last` keeps the last messages, `max_tokens` the leading system messages and as many of the last ones as fit
        (`ContextOverflowError` if the last turn does not). Returns `Message`s, or with `format` ("openai",
        "openai-responses", "anthropic", "ui", "raw") the dicts for that provider's call, valid for it."""
        check_count(last, "last")
        check_count(max_tokens, "max_tokens")
        check_format(format)
        messages = await self._parts.window.read(leaf, last, max_tokens, shortens=format != "raw")
        return messages if format is None else formats.render(messages, format)

    async def transcript(
        self, *, leaf: str | None = None, after: str | None = None, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[Message]:
        """Stream the path to the head (or `leaf`) as it was written, of any length.

        `after` begins after that message, in the direction of reading. Raises `MessageNotFoundError`."""
        async for message in self._parts.reader.transcript(leaf, after, limit, reverse):
            yield message

    async def get_message(self, message_id: str) -> Message:
        """The message with this id, on any branch. Raises `MessageNotFoundError`."""
        return await self._parts.reader.message(message_id)

    async def path_length(self, leaf: str | None = None) -> int:
        """How many messages the path to the head (or `leaf`) has, overlays ignored; no message is read for it."""
        return await self._parts.reader.path_length(leaf)

    async def head(self) -> Message | None:
        """The message that the next append follows."""
        return await self._parts.reader.head()

    async def leaves(self) -> list[Message]:
        """The last message of every branch."""
        return await self._parts.reader.leaves()

    async def branches(self, message_id: str | None) -> list[Message]:
        """The messages that follow a message directly (for None: the roots), oldest first."""
        return await self._parts.reader.children(message_id)

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        role: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        newest: bool = False,
    ) -> SearchResults:
        """Messages on any branch, and summaries, that answer the query: any of its words may match, best first (or
        `newest` first), each with `context` messages before and after it.

        Every text is a query: words or a question; "exact phrases", -excluded, prefix*, role:user, after:2025-01 and
        before:2025-06-30 mean what they say. `role`, `after` (included) and `before` narrow it further.
        `next_cursor` of the results gets the next ones with the same arguments.
        Raises `InvalidInputError`, `InvalidCursorError`."""
        handle = self._parts.handle
        request = await parse_request(
            self._runtime,
            query,
            limit=limit,
            cursor=cursor,
            within=handle.name,
            role=role,
            before=before,
            after=after,
            context=context,
            newest=newest,
        )
        return await search_session(self._runtime, await handle.readable_id(), request)

    # attributes

    async def rename(self, name: str) -> None:
        """Set the session's name."""
        await self._parts.attributes.rename(name)

    async def add_tags(self, *tags: str) -> tuple[str, ...]:
        """Add tags; returns all that the session then has."""
        return await self._parts.attributes.add_tags(*tags)

    async def remove_tags(self, *tags: str) -> tuple[str, ...]:
        """Remove tags; returns those that are left."""
        return await self._parts.attributes.remove_tags(*tags)

    async def set_metadata(self, **values: Any) -> dict[str, Any]:
        """Set values of the metadata (None removes one); returns all of it."""
        return await self._parts.attributes.set_metadata(values)

    async def set_summary(self, text: str | None) -> None:
        """Set the summary shown in lists; it has nothing to do with compactions."""
        await self._parts.attributes.set_summary(text)

    async def set_lifecycle(
        self,
        *,
        idle_after: timedelta | ManagerDefault | None = MANAGER_DEFAULT,
        archive_after: timedelta | ManagerDefault | None = MANAGER_DEFAULT,
        delete_after: timedelta | ManagerDefault | None = MANAGER_DEFAULT,
    ) -> None:
        """Give the session times of its own in place of those of `with_lifecycle`; None means never, and what is left
        out follows the manager's again. Raises `InvalidInputError`."""
        times = {"idle_after": idle_after, "archive_after": archive_after, "delete_after": delete_after}
        await self._parts.attributes.set_lifecycle(times)

    # compaction

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Replace the messages from `from_id` to `to_id` by a summary whenever history is read; they stay stored.

        An end may be the id of a summary: it means the range that one covers. Leading system messages stay visible.
        Raises `InvalidRangeError`, `MessageNotFoundError`."""
        return await self._parts.overlays.add(summary, from_id, to_id)

    async def compactions(self) -> list[Compaction]:
        """Every overlay that the session has, oldest first, including those inside newer ones."""
        return await self._parts.overlays.all()

    async def expand(self, compaction_id: str) -> AsyncIterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""
        async for message in self._parts.overlays.expand(compaction_id):
            yield message

    async def undo_compaction(self, compaction_id: str) -> None:
        """Remove a compaction; what it covered is visible again. Raises `CompactionNotFoundError`."""
        await self._parts.overlays.undo(compaction_id)

    async def context_usage(self, *, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        """How much of the model's window the next call takes: the view, the frozen prompt, and tool schemas if given.

        Costs the same however long the session is."""
        return await self._parts.compactor.context_usage(tools)

    async def needs_compaction(self) -> bool:
        """Whether the view has reached the hard ratio of its window, or `max_messages`; works without a summariser."""
        return await self._parts.compactor.needs_compaction()

    async def compact(self, *, instructions: str | None = None, prompt: str | None = None) -> CompactionResult | None:
        """Compact the view now; None if there is too little to gain. Joins a compaction that is running.

        `instructions` add a focus, `prompt` replaces the question that the model is asked. Raises `CompactionError` and
        what the model raises; the view is then as it was. Messages appended meanwhile stay in the view."""
        return await self._parts.compactor.compact(instructions, prompt)

    async def on_overflow(self, error: BaseException) -> bool:
        """Whether to try again after a model's refusal: True if the error says that the context was too long, and a
        harder compaction (shorter tail, no protected head) made it shorter. False for any other error."""
        return await self._parts.compactor.on_overflow(error)

    async def needs_memory_refresh(self) -> bool:
        """Whether the view has reached the soft ratio, and enough was said since the last extraction."""
        return await self._parts.memory.needs_refresh()

    async def refresh_memory(self) -> list[str]:
        """Extract durable facts from what is new since the last time, hand those not known yet to the sink, and return
        them. A fact counts as known only after the sink took it. Waits for an extraction that is running. Raises what
        extractor and sink raise, `BlockTooLargeError` for facts that the block has no room for, and
        `ConfigurationError` without `with_memory_refresh`."""
        return await self._parts.memory.refresh()

    # context blocks and prompt

    def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        shared: bool = False,
        provider: Any = None,
    ) -> None:
        """Declare one more block, for this handle. `ConfigurationError` if there is one with this label."""
        declaration = Declaration(label, description, default_content, max_tokens, readonly, shared, provider)
        self._parts.context.add(declaration)
        self._parts.toolbox.forget()

    def remove_context(self, label: str) -> bool:
        """Remove a block from this handle's prompt and tools; its value stays stored. False if there was none."""
        self._parts.toolbox.forget()
        return self._parts.context.remove(label)

    async def context_blocks(self) -> list[ContextBlock]:
        """All blocks with their present contents, in the order of their declaration."""
        return await self._parts.context.blocks()

    async def context_block(self, label: str) -> ContextBlock:
        """One block. Raises `BlockNotFoundError`."""
        return await self._parts.context.block(label)

    async def replace_context_block(
        self, label: str, text: str, *, if_version: int | None = None, author: str | None = None
    ) -> ContextBlock:
        """Replace the content of a block; the earlier one is kept in its history, and the frozen prompt stays as it is.

        Raises `BlockNotFoundError`, `ReadonlyBlockError`, `BlockTooLargeError`, and `BlockVersionError` if the block
        has another version than `if_version`."""
        return await self._parts.context.replace(label, text, if_version, author)

    async def append_context_block(self, label: str, text: str, *, author: str | None = None) -> ContextBlock:
        """Add a line at the end of a block; no concurrent write is lost. Raises as `replace_context_block` does."""
        return await self._parts.context.append(label, text, author)

    async def block_history(self, label: str) -> list[BlockVersion]:
        """Every value that a block in the store had, newest first."""
        return await self._parts.context.versions(label)

    async def restore_context_block(self, label: str, version: int, *, author: str | None = None) -> ContextBlock:
        """Write an earlier value again, as a new version. Raises `BlockNotFoundError` for a version that never was."""
        return await self._parts.context.restore(label, version, author)

    async def set_system_prompt(self, text: str) -> None:
        """Set a readonly block `system` of this session that is shown first; the next freeze renders it."""
        await self._parts.prompt.forget(await self._parts.context.set_system_prompt(text, None))

    async def freeze_system_prompt(self) -> str:
        """The system prompt, rendered once and then kept the same until `refresh_system_prompt`, `clear_messages`,
        a compaction, or a change of the declared blocks. All workers agree on it with `with_cached_prompt`."""
        return await self._parts.prompt.freeze()

    async def refresh_system_prompt(self) -> str:
        """Render the prompt again from what the blocks hold now, and freeze that."""
        return await self._parts.prompt.refresh()

    async def context_changes(self) -> dict[str, Any] | None:
        """A message that says what changed since the freeze, to be appended at the end; None if nothing did.

        The prefix that the provider has cached stays as it is. Appending the same change twice is a no-op."""
        return await self._parts.prompt.changes()

    async def tools(self) -> dict[str, Tool]:
        """The tools for the blocks there are, and `expand_summary` with compaction, by name. No I/O after first use."""
        return await self._parts.toolbox.tools()


class StandaloneSession(Session, Configurable):
    """One conversation without a manager: every call of a session, and the set-up calls of a manager.

    Close it, or use it in `async with`. Comes from `Session.create`."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None:
        super().__init__(runtime, ref)
        runtime.hooks.session_for = lambda session_id: Session(runtime, session_id)

    def for_session(self, ref: str | SessionKey) -> StandaloneSession:
        """Choose which session it is. Raises `ConfigurationError` after first use."""
        self._runtime.configure()
        return StandaloneSession(self._runtime, ref)

    async def __aenter__(self) -> Self:
        await self._runtime.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish background work and close the store; idempotent."""
        await self._runtime.close()


class Turn(Session):
    """A session in one's turn: everything that a `Session` can do, but what it writes is refused with `TurnLostError`
    once the turn is over. Comes from `Session.turn`; a turn taken inside it is the same turn.

    Context blocks are guarded by their versions, not by the turn."""

    def __init__(self, outside: Components, holding: Holding) -> None:
        self._runtime = outside.handle.runtime
        self._parts = outside.in_turn(holding.session_id, holding.number)
        self._holding = holding

    @property
    def number(self) -> int:
        """The fencing number: it grows with every turn of the session."""
        return self._holding.number

    @property
    def lost(self) -> bool:
        """Whether the turn is known to be over: ended, run out, taken over, or the store out of reach for too long."""
        return self._holding.lost

    @property
    def interrupted(self) -> bool:
        """Whether another worker took over with `on_busy="interrupt"`: known at once in the same process, otherwise
        within a second."""
        return self._holding.interrupted

    async def run(self, work: Awaitable[R]) -> R:
        """The result of some work, such as a model's answer; cancelled, with `TurnLostError`, when the turn is lost."""
        return await self._holding.run(work)

    async def take_queued(self) -> Message | None:
        """Append the next message that was queued for the holder of the turn, and return it; each comes once.

        None if there is no more. From then on other callers wait for their turn instead of queueing a message, so that
        none is left behind; what is queued when a turn ends goes to the next one. Raises `TurnLostError`."""
        return await self._parts.writer.take_queued(self.number)

    def __repr__(self) -> str:
        return f"Turn({self.number}, session={self.id!r}, namespace={self._runtime.namespace!r})"

    def _hold(self, request: TurnRequest) -> AbstractAsyncContextManager[Turn | None]:
        if request.message is None:
            return self._holding.nested(self)
        return super()._hold(replace(request, wait=0.0))  # the holder would wait for itself
