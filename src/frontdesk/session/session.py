"""`Session`, `Turn` and `StandaloneSession`: the public calls on one conversation. They only delegate to the components
that `components` connects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar, overload

from msgspec.structs import replace

from frontdesk.checks import check_count, check_summary, check_text
from frontdesk.config.builder import Configurable
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.scopes import SearchScope
from frontdesk.config.settings import Declaration
from frontdesk.context.blocks import BlockVersion, ContextBlock
from frontdesk.deadlines import one_call
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.transitions import MANAGER_DEFAULT, ManagerDefault
from frontdesk.messages import Message, NewMessage
from frontdesk.messages.formats import MessageFormat, Notes, check_format
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.records import Appended, Compaction, CompactionResult, ContextUsage, SessionInfo
from frontdesk.search.hits import SearchResults
from frontdesk.search.pipeline import search
from frontdesk.search.request import parse_request
from frontdesk.search.visibility import Access, AccessRule
from frontdesk.session.components import Components
from frontdesk.session.handle import Handle
from frontdesk.session.preparing import check_rendering
from frontdesk.session.records import ContextBreakdown, Outline, PathPage, Prompt, Timeline, TurnInfo, ViewPage
from frontdesk.session.requests import AnthropicRequest, OpenAIRequest, OpenAIResponsesRequest, ProviderFormat
from frontdesk.session.splitting import split
from frontdesk.session.succession import start_next
from frontdesk.session.turns import DEFAULT_TTL, Duration, Holding, OnBusy, TurnRequest, hold, turn_request
from frontdesk.session.writing import Given
from frontdesk.store import ANY_HEAD, FOLLOW_HEAD, AnyHead, FollowHead, Scope, Store
from frontdesk.tools import Tool, check_tools

R = TypeVar("R")
"""the result of some work"""


class Session:
    """A handle on one session. Creating a handle does no I/O; the first write creates the session.

    A handle made from a key looks up the key's current session at its first I/O, and stays with that session from then
    on. If there is none, the first write creates it."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey, stored_key: SessionKey | None = None) -> None:
        self._runtime = runtime
        self._parts = Components(Handle(runtime, ref, stored_key=stored_key))

    def _continue(self, other: Session, known_id: str | None, turn: int | None) -> None:
        """Become the continuation of another handle, as `Components.continued` makes it."""
        self._runtime = other._runtime
        self._parts = other._parts.continued(known_id, turn)

    @classmethod
    def create(
        cls,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        clock: Clock | None = None,
    ) -> StandaloneSession:
        """One conversation without a manager. Its id is "default"; `for_session` chooses another."""
        return StandaloneSession(Runtime(store, namespace, max_message_bytes, clock), "default")

    def __repr__(self) -> str:
        handle = self._parts.handle
        return f"Session({handle.id if handle.is_resolved else handle.key!r}, namespace={self._runtime.namespace!r})"

    @property
    def id(self) -> str:
        """The session's id. A handle made from a key has none before its first I/O: then this raises
        `ConfigurationError`."""
        return self._parts.handle.id

    @property
    def key(self) -> SessionKey | None:
        """The key of the session, as in `SessionInfo.key`. None if the session has none, or if it is not known yet: a
        handle made from an id knows the key once it has read it, for example with `info`. No I/O."""
        return self._parts.handle.known_key

    async def info(self) -> SessionInfo:
        """Information about the session. Raises `SessionNotFoundError` if nothing has been written to it yet."""
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
        """The exclusive right to extend the session, across all workers, for `async with`. Creates the session if
        needed.

        The turn is renewed in the background. If its holder dies, it passes to the next worker after `ttl` seconds.
        `on_busy` says what to do while another worker has the turn: "wait" waits in the queue, for `wait` seconds or
        (None) without a limit; "reject" raises at once; "interrupt" takes over from the holder at once; "queue" stores
        the `message` for the holder, and returns None instead of a `Turn`. With "queue", `Turn.take_queued` appends the
        message, even if this caller gets the turn. Raises `TurnBusyError`."""
        stored = None if message is None else self._parts.writer.ingest(message)
        return self._hold(turn_request(wait, ttl, on_busy, stored))

    def _hold(self, request: TurnRequest) -> AbstractAsyncContextManager[Turn | None]:
        return hold(self._parts.handle, request, lambda holding: Turn(self._parts, holding))

    # writing messages

    @overload
    async def append(
        self,
        message: Given,
        *,
        id: str | None = None,
        role: None = None,
        text: str | None = None,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        message: Any,
        *,
        id: str | None = None,
        role: str,
        text: str | None = None,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> Appended: ...

    async def append(
        self,
        message: Any,
        *,
        id: str | None = None,
        role: str | None = None,
        text: str | None = None,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> Appended:
        """Store a message after the head, after `parent`, or (`parent=None`) as a new root, and make it the head.

        A message is a dict in a known format, a `Message`, or an object of a provider's SDK. `id`, `role` and `text`
        override what would be derived from it. With `role`, it may be any JSON value, such as an item of a framework,
        which is stored unchanged. Search, token counts and summaries use `text`.

        When it returns, the message is durable. If the session already has a message with this id, nothing happens and
        `inserted` is False. A session that a sweep archived becomes active again. One that was suspended, or ended in
        another way, raises `SessionEndedError` unless `reopen` is True. With `expected_head`, the message is stored
        only if this is still the head (None: only if there is no head); otherwise `HeadMovedError` is raised. Raises
        `InvalidMessageError`, `MessageTooLargeError`, `HeadMovedError`, `MessageNotFoundError`."""
        given = message if id is role is text is None else NewMessage(message, id, role, text)
        (appended,) = await self._parts.writer.append(
            [given], parent=parent, expected_head=expected_head, reopen=reopen
        )
        return appended

    async def append_all(
        self,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = FOLLOW_HEAD,
        expected_head: str | AnyHead | None = ANY_HEAD,
        reopen: bool = False,
    ) -> list[Appended]:
        """Store messages one after the other, all of them or none.

        Without `parent`, messages that the session already has are skipped, and the others continue after the head.
        With `parent`, the messages are a path after it: one that the session already has must follow the one before it,
        otherwise `InvalidRangeError` is raised. If there is nothing to store, the head stays. Raises the same errors as
        `append`."""
        return await self._parts.writer.append(
            messages, parent=parent, expected_head=expected_head, reopen=reopen, is_path=True
        )

    async def upsert(self, message: Given, *, reopen: bool = False) -> Appended:
        """Replace the message that has this id, in place, or append it if the id is new. Atomic. `inserted` says
        whether it was appended. Raises the same errors as `append`."""
        return await self._parts.writer.upsert(message, FOLLOW_HEAD, reopen=reopen)

    async def update_message(self, message: Given) -> Message:
        """Replace the content of the message that has this id. If the content is the same, nothing is written.

        Summaries and facts that were made from the old content are made again with the next compaction or extraction.
        Raises `MessageNotFoundError`, `InvalidMessageError`."""
        return await self._parts.writer.update(message)

    async def delete_messages(self, ids: Iterable[str], *, expected_head: str | AnyHead | None = ANY_HEAD) -> int:
        """Delete messages permanently, on any branch. The messages after them stay connected. If the head is deleted,
        the nearest message before it that is left becomes the head.

        Returns how many existed. Raises `InvalidMessageError` for the id of a summary, and `HeadMovedError` as `append`
        does."""
        return await self._parts.remover.delete(ids, expected_head)

    async def pop(self, *, expected_head: str | AnyHead | None = ANY_HEAD) -> Message | None:
        """Delete the message at the head permanently, as `delete_messages` does, and return it; None if there is no
        head. The message before it becomes the head.

        Concurrent calls never return the same message. Only this message is deleted: if it is a tool result, its call
        stays. Raises `HeadMovedError`."""
        return await self._parts.remover.pop(expected_head)

    async def replace_messages(
        self, messages: Iterable[Given], *, expected_head: str | AnyHead | None = ANY_HEAD
    ) -> list[Message]:
        """Make this list the whole session, in one transaction, and return it. Readers see the old messages or the new
        ones.

        Messages that both lists begin with are left alone, so a list with one more message writes only that one. All
        others, on any branch, are deleted permanently, with every compaction that covers one of them. A message without
        an id matches the stored one if its content is the same. Raises the same errors as `append`, and
        `InvalidMessageError` if an id is in the list twice."""
        return await self._parts.replacer.replace(messages, expected_head)

    async def clear_messages(self, *, expected_head: str | AnyHead | None = ANY_HEAD) -> None:
        """Delete all messages and compactions of the session permanently. Name, tags, metadata and usage stay. Raises
        `HeadMovedError`."""
        await self._parts.remover.clear(expected_head)

    @overload
    async def switch(self, leaf: str, *, expected_head: str | AnyHead | None = ANY_HEAD) -> Message: ...

    @overload
    async def switch(self, leaf: None, *, expected_head: str | AnyHead | None = ANY_HEAD) -> None: ...

    @overload
    async def switch(self, leaf: str | None, *, expected_head: str | AnyHead | None = ANY_HEAD) -> Message | None: ...

    async def switch(self, leaf: str | None, *, expected_head: str | AnyHead | None = ANY_HEAD) -> Message | None:
        """Make a message the head, so that the next append follows it, and return it.

        None moves the head to before the first message: history is then empty, and the next append starts a new root.
        Nothing is deleted. Raises `MessageNotFoundError`, `HeadMovedError`."""
        await self._parts.remover.switch(leaf, expected_head)
        return None if leaf is None else await self._parts.reader.message(leaf)

    # reading messages

    @overload
    async def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: None = None,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> list[Message]: ...

    @overload
    async def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> list[dict[str, Any]]: ...

    @one_call
    async def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat | None = None,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> list[Message] | list[dict[str, Any]]:
        """What the model sees: the path to the head (or `leaf`) with compactions applied, oldest first.

        `last` returns only that many messages from the end. `max_tokens` limits their tokens. The leading system
        messages, the summaries, and the current request with all its steps always stay. If the rest does not fit, long
        texts before the current request are shortened first, then earlier requests are left out with their answers,
        the oldest first, then tool outputs of the current request are shortened. This happens in steps of up to half of
        `max_tokens`, so that the start of the result stays the same for many calls.

        Returns `Message`s, or with `format` ("openai", "openai-responses", "anthropic", "gemini", "pydantic-ai", "adk",
        "ui", "raw") dicts that are valid for that provider or framework. No message is dropped: summaries, and system
        messages in the middle, are written as user messages, or with `notes="system"` as system messages where the
        provider allows that (OpenAI). `alternate=True` merges adjacent messages of one role, for chat templates that
        require alternation. "raw" is what was appended, and is never shortened.

        Raises `InvalidInputError`, `MessageNotFoundError`, and `ContextOverflowError` if what must stay does not
        fit."""
        check_count(last, "last")
        check_count(max_tokens, "max_tokens")
        if format is not None:
            check_format(format)
        check_rendering(notes, alternate)
        messages = await self._parts.window.read(leaf, last, max_tokens, shortens=format != "raw")
        return messages if format is None else await self._parts.preparer.render(messages, format, notes, alternate)

    @overload
    async def prepare(
        self,
        format: Literal["openai"],
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> OpenAIRequest: ...

    @overload
    async def prepare(
        self,
        format: Literal["openai-responses"],
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> OpenAIResponsesRequest: ...

    @overload
    async def prepare(
        self,
        format: Literal["anthropic"],
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> AnthropicRequest: ...

    @one_call
    async def prepare(
        self,
        format: ProviderFormat,
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> Any:
        """The keyword arguments of a model call: the frozen prompt, the history, and the definitions of tools. `tools`
        is True (those of the session), False (none), or a dict by name: add your own to what `tools()` returns.

        A note on what has changed in the context since the prompt was frozen comes last, but never between a tool call
        and its result. No message is written, and no session is created. For "anthropic", `cache` sets cache
        breakpoints at the ends of the stable parts: tools and system prompt, the last summary, and the last message.
        `max_tokens` limits the whole request, with prompt and tools. `notes` and `alternate` mean the same as in
        `history`.

        Raises `InvalidInputError`, and `ContextOverflowError` if what must stay does not fit."""
        offered = (await self.tools() if tools else {}) if isinstance(tools, bool) else check_tools(tools)
        return await self._parts.preparer.prepare(
            format, [*offered.values()], max_tokens=max_tokens, cache=cache, notes=notes, alternate=alternate
        )

    def transcript(
        self, *, leaf: str | None = None, after: str | None = None, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[Message]:
        """Stream the path to the head (or `leaf`) as it was written. The path may have any length.

        With `after`, the stream starts after that message, in the direction of reading. Raises
        `MessageNotFoundError`."""
        return self._parts.reader.transcript(leaf, after, limit, reverse)

    async def page(
        self, *, leaf: str | None = None, position: int | None = None, around: str | None = None, limit: int = 50
    ) -> PathPage:
        """A page of the path to the head (or `leaf`) as it was written, by position: from `position` on, with the
        message `around` in the middle, or the last `limit` messages. Each entry says whether a compaction covers it,
        and which other messages there are at this point of the tree.

        Reads only the messages of the page. Raises `InvalidInputError`, `MessageNotFoundError`."""
        return await self._parts.pager.path_page(leaf, position, around, limit)

    async def view(
        self, *, leaf: str | None = None, position: int | None = None, limit: int = 50, max_tokens: int | None = None
    ) -> ViewPage:
        """What the model sees at the head (or at `leaf`), with the origin of each item: a message, a summary and what
        it covers, or a note; how long it was before it was shortened to fit `max_tokens`; and why messages are missing.

        Returns the items from `position` on, or the last `limit` items. Raises `InvalidInputError`,
        `MessageNotFoundError`, `ContextOverflowError`."""
        return await self._parts.pager.view_page(leaf, position, limit, max_tokens)

    async def outline(self) -> Outline:
        """The shape of the session without its messages: the runs between branches, the compactions, and the sessions
        forked from it. Raises `SessionNotFoundError`."""
        return await self._parts.outliner.outline()

    async def timeline(self, *, leaf: str | None = None, points: int = 400) -> Timeline:
        """How many tokens the view has had along the path to the head (or `leaf`), what compactions changed, and what
        model calls cost, in at most `points` points (no more than 400). Reads only the messages at these points. Raises
        `SessionNotFoundError`, `MessageNotFoundError`, `InvalidInputError`."""
        return await self._parts.timelines.timeline(leaf, points)

    async def turn_info(self) -> TurnInfo:
        """Who has the turn, since when, and who is waiting for it."""
        return await self._parts.examiner.turn()

    async def get_message(self, message_id: str) -> Message:
        """The message with this id, on any branch. Raises `MessageNotFoundError`."""
        return await self._parts.reader.message(message_id)

    async def path_length(self, leaf: str | None = None) -> int:
        """The number of messages on the path to the head (or `leaf`), covered or not. Reads no messages."""
        return await self._parts.reader.path_length(leaf)

    async def head(self) -> Message | None:
        """The message that the next append follows; None in an empty session."""
        return await self._parts.reader.head()

    async def leaves(self) -> list[Message]:
        """The last message of every branch."""
        return await self._parts.reader.leaves()

    async def branches(self, message_id: str | None) -> list[Message]:
        """The messages that follow a message directly (for None: the roots), oldest first."""
        return await self._parts.reader.children(message_id)

    @one_call
    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        role: str | Sequence[str] | None = None,
        author: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        newest: bool = False,
        meaning: bool = True,
    ) -> SearchResults:
        """Search the messages on all branches, and the summaries. Any of the words may match. The best hits come first,
        or with `newest` the latest. Each has `context` messages before and after it.

        Any text is a valid query. It can be words or a question, and can contain "exact phrases", -excluded, prefix*,
        role:user, from:ana, after:2025-01 and before:2025-06-30. `role` (one or several), `author`, `after` (inclusive)
        and `before` narrow the search further. With embeddings, texts that are near in meaning are also found, unless
        `meaning` is False. Pass `next_cursor` of the results as `cursor`, with the same arguments, for the next page.
        Raises `InvalidInputError`, `InvalidCursorError`."""
        handle = self._parts.handle
        request = await parse_request(
            self._runtime,
            query,
            limit=limit,
            cursor=cursor,
            within=handle.name,
            role=role,
            author=author,
            before=before,
            after=after,
            context=context,
            newest=newest,
            meaning=meaning,
        )
        session_id = await handle.readable_id()
        own = AccessRule(ids=frozenset(() if session_id is None else (session_id,)))
        return await search(self._runtime, request, Access(self._runtime, own), names=False)

    # attributes

    async def rename(self, name: str) -> None:
        """Set the session's name."""
        await self._parts.attributes.rename(name)

    async def add_tags(self, *tags: str) -> tuple[str, ...]:
        """Add tags. Returns all tags of the session."""
        return await self._parts.attributes.add_tags(*tags)

    async def remove_tags(self, *tags: str) -> tuple[str, ...]:
        """Remove tags. Returns the tags that are left."""
        return await self._parts.attributes.remove_tags(*tags)

    async def set_metadata(self, /, **values: Any) -> dict[str, Any]:
        """Set values of the metadata; None removes a value. Returns all metadata."""
        return await self._parts.attributes.set_metadata(values)

    async def set_summary(self, text: str | None) -> None:
        """Set `SessionInfo.summary`. It has nothing to do with the summaries of compactions."""
        await self._parts.attributes.set_summary(text)

    async def set_lifecycle(
        self,
        *,
        idle_after: timedelta | ManagerDefault | None = MANAGER_DEFAULT,
        archive_after: timedelta | ManagerDefault | None = MANAGER_DEFAULT,
        delete_after: timedelta | ManagerDefault | None = MANAGER_DEFAULT,
    ) -> None:
        """Set thresholds for this session that override those of `with_lifecycle`. None means never. A threshold that
        is not passed is reset to that of the manager. Raises `InvalidInputError`."""
        times = {"idle_after": idle_after, "archive_after": archive_after, "delete_after": delete_after}
        await self._parts.attributes.set_lifecycle(times)

    # compaction

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Replace the messages from `from_id` to `to_id` with a summary whenever history is read. They stay stored.

        The id of a summary means the range that it covers. Leading system messages stay visible. Raises
        `InvalidRangeError`, `MessageNotFoundError`."""
        return await self._parts.overlays.add(summary, from_id, to_id)

    async def compactions(self) -> list[Compaction]:
        """All compactions of the session, oldest first, including those inside newer ones."""
        return await self._parts.overlays.all()

    def expand(self, compaction_id: str) -> AsyncIterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""
        return self._parts.overlays.expand(compaction_id)

    async def undo_compaction(self, compaction_id: str) -> None:
        """Remove a compaction. The messages that it covered are visible again. Raises `CompactionNotFoundError`."""
        await self._parts.overlays.undo(compaction_id)

    async def context_usage(self, *, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        """How much of the model's window the next call takes: the view, the frozen prompt, and `tools` (schemas) if
        given.

        The cost does not depend on the length of the session."""
        return await self._parts.compactor.context_usage(tools)

    async def context_breakdown(self) -> ContextBreakdown:
        """What the next model call takes, by part: prompt, tools, summaries, and messages by role; how that differs
        from what was written; and the last call in the usage ledger. Reads no messages, and freezes nothing. Raises
        `SessionNotFoundError`."""
        return await self._parts.examiner.breakdown()

    async def needs_compaction(self) -> bool:
        """Whether the view and the frozen prompt together have reached the hard ratio of the window, or the view has
        more than `max_messages` messages. Works without a summariser."""
        return await self._parts.compactor.needs_compaction()

    async def compact(self, *, instructions: str | None = None, prompt: str | None = None) -> CompactionResult | None:
        """Compact the view now. Returns None if there is too little to gain. If a compaction is already running, waits
        for it and returns its result.

        `instructions` are added to the prompt of the model, `prompt` replaces it. Messages appended meanwhile stay in
        the view. Raises `CompactionError` and the errors of the model; the view is then unchanged."""
        return await self._parts.compactor.compact(instructions, prompt)

    async def on_overflow(self, error: BaseException) -> bool:
        """Call this with the error of a model call. If the error means that the context was too long, the view is
        compacted further, with a shorter tail and no protected head. Returns True if that made the view shorter, so
        that the call is worth repeating. Returns False for any other error, or if the view could not be made
        shorter."""
        return await self._parts.compactor.on_overflow(error)

    async def needs_memory_refresh(self) -> bool:
        """Whether the view and the frozen prompt together have reached the soft ratio, and there are enough new
        messages since the last extraction."""
        return await self._parts.memory.needs_refresh()

    async def refresh_memory(self) -> list[str]:
        """Extract durable facts from the messages since the last extraction, write the new facts to the block (or pass
        them to the sink), and return them. A fact counts as known only after that has succeeded. If an extraction is
        already running, waits for it. Raises the errors of the extractor and the sink, `BlockTooLargeError` if the
        facts do not fit into the block, and `ConfigurationError` without `with_memory_refresh`."""
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
        scope: Scope = "session",
        provider: Any = None,
    ) -> None:
        """Declare another block, for this handle only. Raises `ConfigurationError` if the label is already declared."""
        declaration = Declaration(label, description, default_content, max_tokens, readonly, scope, provider)
        self._parts.context.add(declaration)
        self._parts.toolbox.forget()

    def remove_context(self, label: str) -> bool:
        """Remove a block from the prompt and tools of this handle. Its content stays stored. False if there was
        none."""
        self._parts.toolbox.forget()
        return self._parts.context.remove(label)

    async def context_blocks(self) -> list[ContextBlock]:
        """All blocks with their current content, in the order of their declaration."""
        return await self._parts.context.blocks()

    async def context_block(self, label: str) -> ContextBlock:
        """One block. Raises `BlockNotFoundError`."""
        return await self._parts.context.block(label)

    async def replace_context_block(
        self, label: str, text: str, *, if_version: int | None = None, author: str | None = None
    ) -> ContextBlock:
        """Replace the content of a block. The previous content is kept in the block's history. The frozen prompt does
        not change.

        Raises `BlockNotFoundError`, `ReadonlyBlockError`, `BlockTooLargeError`, `BlockVersionError` if the version of
        the block is not `if_version`, and `InvalidInputError` for a block that consists of entries."""
        return await self._parts.context.replace(label, text, if_version, author)

    async def append_context_block(
        self, label: str, text: str, *, author: str | None = None, made_from: Iterable[str] = ()
    ) -> ContextBlock:
        """Add a line at the end of a block. No concurrent write is lost, unless a provider keeps the content.

        `made_from` are the ids of messages that the text was made from, or of summaries in the view. Once one of them
        is deleted, the lines of the text are removed from the block, from its earlier versions and from the prompts
        that show them, unless a provider keeps the content. Raises the same errors as `replace_context_block`,
        `MessageNotFoundError`, and `SessionNotFoundError` if the session is being deleted."""
        return await self._parts.quoter.append(label, text, author, made_from)

    async def block_history(self, label: str) -> list[BlockVersion]:
        """All versions of a block, newest first. Raises `BlockNotFoundError`, and `InvalidInputError` for a block whose
        content a provider keeps."""
        return await self._parts.context.versions(label)

    async def count_sharing(self, label: str, *, most: int = 1000) -> int:
        """How many sessions share a block, including this one: depending on the scope of the block, those with the same
        key, guest or agent, or all of the namespace. Counting stops at `most`. Raises `BlockNotFoundError`."""
        return await self._parts.examiner.count_sharing(label, most)

    async def restore_context_block(self, label: str, version: int, *, author: str | None = None) -> ContextBlock:
        """Write the content of an earlier version again, as a new version. Raises `BlockNotFoundError` if there is no
        such version, and otherwise the same errors as `block_history` and `replace_context_block`."""
        return await self._parts.context.restore(label, version, author)

    async def forget_block_history(self, label: str) -> None:
        """Remove all earlier versions of a block. The current one stays. Raises the same errors as `block_history`."""
        await self._parts.context.forget_versions(label)

    async def remove_context_entry(self, label: str, key: str) -> bool:
        """Remove an entry of a block with `StoreSearch`, with all its versions. Returns False if there is none. Raises
        `BlockNotFoundError`, and `InvalidInputError` for another kind of block."""
        return await self._parts.context.remove_entry(label, key)

    async def set_system_prompt(self, text: str) -> None:
        """Set a text that is shown before all blocks, as the readonly block `system`. It takes effect with the next
        freeze."""
        await self._parts.prompt.forget(await self._parts.context.set_system_prompt(text, None))

    async def freeze_system_prompt(self) -> str:
        """The system prompt. It is rendered once, and then stays the same until `refresh_system_prompt`,
        `clear_messages`, a compaction, a deployment that changes what it is rendered from, or the deletion of messages
        from which facts in it were extracted. With `with_cached_prompt`, all workers get the same text: it is stored,
        and so this creates the session if there is none."""
        return (await self._parts.prompt.freeze()).text

    async def prompt(self) -> Prompt | None:
        """The frozen system prompt, with the versions of its blocks; None if there is none. Nothing is rendered."""
        return await self._parts.examiner.prompt()

    async def refresh_system_prompt(self) -> str:
        """Render the prompt again from the current content of the blocks, and freeze it, as `freeze_system_prompt`
        does."""
        return (await self._parts.prompt.refresh()).text

    async def context_changes(self) -> dict[str, Any] | None:
        """A message that says what has changed since the prompt was frozen, for you to append; None if nothing has.

        The frozen prompt, which the provider has cached, stays the same. Appending the same change twice does nothing.
        """
        frozen = await self._parts.prompt.current()
        return None if frozen is None else await self._parts.prompt.changes(frozen)

    async def tools(self, *, scope: SearchScope | None = "guest") -> dict[str, Tool]:
        """The tools for the model, by name: those of the blocks; `expand_summary` with `with_compaction`, or once there
        is a compaction; and `session_search` and `read_session`, which search and read earlier conversations.

        `scope` says which conversations these two reach. By default it is "guest": those under keys with the same
        agent, channel and peer (as far as `with_isolation` distinguishes them), in all threads, including ended ones. A
        session without a key reaches only itself, with what it inherited as a fork. "session" means this session,
        "agent" all sessions of its agent, and "namespace" all sessions. Filters such as {"agent": "concierge", "tag":
        "public"} choose sessions, and so does a function from `SessionInfo` to a bool, sync or async. None leaves the
        two tools out.

        They show user, assistant and tool messages, and names and summaries of sessions, never system messages. What is
        out of scope looks as if it did not exist. The tools belong to this session: if it is deleted and its id is used
        again for another guest, they find nothing. Raises `ConfigurationError` for an unknown scope."""
        return await self._parts.toolbox.tools(scope)


class StandaloneSession(Session, Configurable):
    """One conversation without a manager: every call of a session, and the setup calls of a manager.

    Made by `Session.create`. Use it in `async with`, or close it."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None:
        super().__init__(runtime, ref)
        runtime.hooks.session_for = lambda session_id: Session(runtime, session_id)

    def for_session(self, ref: str | SessionKey) -> StandaloneSession:
        """The same setup for the session with this id or key. Raises `ConfigurationError` after first use."""
        self._runtime.configure()
        return StandaloneSession(self._runtime, ref)

    async def __aenter__(self) -> Self:
        await self._runtime.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait up to two seconds for background work, then cancel it, and close the store if it was passed as a URL.
        Idempotent. `async with` opens the session again."""
        await self._runtime.close()


class Turn(Session):
    """A turn of a session. It has every call of a `Session`, but once the turn is over, writes raise `TurnLostError`.

    This includes writes of context blocks and the frozen prompt. Made by `Session.turn`. A turn taken inside a turn is
    the same turn."""

    def __init__(self, outside: Components, holding: Holding) -> None:
        self._runtime = outside.handle.runtime
        self._parts = outside.in_turn(holding.session_id, holding.number)
        self._holding = holding

    @property
    def number(self) -> int:
        """The fencing number. It grows with every turn of the session."""
        return self._holding.number

    @property
    def lost(self) -> bool:
        """Whether the turn is known to be over: it ended, expired or was taken over, or the store could not be reached
        for too long."""
        return self._holding.lost

    @property
    def interrupted(self) -> bool:
        """Whether another worker took over with `on_busy="interrupt"`. Known at once in the same process, and within a
        second in others."""
        return self._holding.interrupted

    async def run(self, work: Awaitable[R]) -> R:
        """Await some work, such as a model call, and return its result. If the turn is lost, the work is cancelled and
        `TurnLostError` is raised."""
        return await self._holding.run(work)

    async def new(self) -> Turn:
        """End the session (reason `new`) and start another one under its key, as `SessionManager.new` does. Returns
        the turn of the new session, which is held until the end of this turn's `async with` block. This turn is over.

        Raises `TurnLostError`, and `InvalidKeyError` if the session is not the current one under a key."""
        return self._following(await start_next(self._holding))

    async def compact_and_split(self, summary: str | None = None, name: str | None = None) -> Turn:
        """End the session (reason `compaction`) and continue in a new one that starts with a summary of it, as
        `SessionManager.compact_and_split` does. Returns the turn of the new session, which is held until the end of
        this turn's `async with` block. This turn is over.

        Raises `CompactionError`, `TurnLostError`."""
        opening = await self._parts.compactor.opening(None if summary is None else check_summary(summary))
        return self._following(await split(self._holding, opening, None if name is None else check_text(name, "name")))

    def _following(self, holding: Holding) -> Turn:
        return Turn(self._parts.following(holding.session_id), holding)

    async def take_queued(self) -> Message | None:
        """Append the next message that was queued for the holder of the turn, and return it. Each message is returned
        once.

        Returns None if there are no more. From then on, other callers wait for their own turn instead of queueing a
        message, so that none is left behind. Messages that are still queued when a turn ends go to the next one. Raises
        `TurnLostError`."""
        return await self._parts.writer.take_queued(self.number)

    def __repr__(self) -> str:
        return f"Turn({self.number}, session={self.id!r}, namespace={self._runtime.namespace!r})"

    def _hold(self, request: TurnRequest) -> AbstractAsyncContextManager[Turn | None]:
        if request.message is None:
            return self._holding.nested(self)
        return super()._hold(replace(request, wait=0.0))  # the holder would wait for itself
