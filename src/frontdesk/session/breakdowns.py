"""What the next model call of a session takes, by part; and its frozen prompt and its turn, as they are. Nothing is
rendered, stored or renewed by looking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from frontdesk.checks import check_count
from frontdesk.context.blocks import ContextBlock
from frontdesk.context.frozen_prompt import FrozenPrompt, block_state, states_of
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.errors import SessionNotFoundError
from frontdesk.history.paths import Path, load_path
from frontdesk.history.trees import measure_each
from frontdesk.messages.exact_json import compact
from frontdesk.models.windows import session_window
from frontdesk.moments import to_datetime
from frontdesk.records import UsageEntry
from frontdesk.session.handle import Handle
from frontdesk.session.records import ContextBreakdown, ContextPart, Prompt, PromptBlock, TurnInfo
from frontdesk.store import TURN, EditItem, Item, OverlayItem, PromptRow, SessionQuery, Span
from frontdesk.tools import Tool
from frontdesk.tree.items import count

_MOST_COUNTED = 100_000
_ORDER = ("summary", "system", "user", "assistant", "tool")
_SAME_PART = {"developer": "system", "function": "tool"}


class Examiner:
    """Looks at a session for a handle."""

    def __init__(
        self,
        handle: Handle,
        context: SessionBlocks,
        prompt: FrozenPrompt,
        tools: Callable[[], Awaitable[Sequence[Tool]]],
    ) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._context = context
        self._prompt = prompt
        self._tools = tools

    async def breakdown(self) -> ContextBreakdown:
        """See `Session.context_breakdown`. Raises `SessionNotFoundError`."""
        row = await self._handle.row()
        path = await load_path(self._runtime, row.id)
        if path is None:
            raise SessionNotFoundError(row.id, self._runtime.namespace)
        frozen = await self._prompt.last_frozen()
        tools = await self._tools()
        settings = self._runtime.settings
        sizes = [settings.counter(compact(tool.to_openai())) for tool in tools]
        parts = [
            ContextPart("prompt", 0 if frozen is None else 1, await self._prompt.tokens(row)),
            ContextPart("tools", len(tools), sum(sizes)),
            *await self._view_parts(path),
        ]
        covers = path.covers()
        covered = await measure_each(self._runtime, path.tree, [cover.items for cover in covers])
        segments = path.tree.visible_segments()
        everything = sum(count(path.tree.segment_items(segment.number)) for segment in segments)
        used = sum(part.tokens for part in parts if part.part != "tools")
        window = session_window(row, settings.compaction.max_tokens)
        limit = int(settings.compaction.hard_ratio * window)
        calls = await self._runtime.store.recent_usage(self._runtime.namespace, row.id, 1)
        return ContextBreakdown(
            used=used,
            max=window,
            ratio=used / window,
            compacts_at=limit,
            room=max(0, limit - used),
            parts=tuple(parts),
            prompt_frozen_at=None if frozen is None else to_datetime(frozen.created_at),
            blocks=tuple(_block(block, frozen) for block in await self._context.blocks()),
            covered_messages=sum(count(cover.items) for cover in covers),
            covered_tokens=sum(covered),
            branch_messages=everything - path.total,
            last_call=UsageEntry.from_row(calls[0]) if calls else None,
        )

    async def _view_parts(self, path: Path) -> list[ContextPart]:
        """The view by roles; no text is read."""
        items = path.view_items()
        messages: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        spans = [item for item in items if isinstance(item, Span)]
        rows = await self._runtime.store.tally(spans) if spans else []
        rows += [(_role(path, item), 1, item.tokens) for item in items if not isinstance(item, Span)]
        for role, number, size in rows:
            part = _SAME_PART.get(role, role)
            messages[part] += number
            tokens[part] += size
        others = sorted(part for part in messages if part not in _ORDER)
        return [ContextPart(part, messages[part], tokens[part]) for part in (*_ORDER, *others) if messages[part]]

    async def prompt(self) -> Prompt | None:
        """See `Session.prompt`."""
        frozen = await self._prompt.last_frozen()
        if frozen is None:
            return None
        versions = {label: state[0] for label, state in states_of(frozen).items()}
        return Prompt(frozen.text, frozen.tokens, to_datetime(frozen.created_at), versions)

    async def turn(self) -> TurnInfo:
        """See `Session.turn_info`."""
        store, namespace = self._runtime.store, self._runtime.namespace
        session_id = await self._handle.readable_id()
        if session_id is None:
            return TurnInfo(None, None, None, None, ())
        lease = await store.get_lease(namespace, session_id, TURN)
        waiting = tuple(await store.lease_queue(namespace, session_id, TURN))
        if lease is None:
            return TurnInfo(None, None, None, None, waiting)
        since, until = to_datetime(lease.taken_at), to_datetime(lease.expires_at)
        return TurnInfo(lease.holder, lease.number, since, until, waiting)

    async def count_sharing(self, label: str, most: int) -> int:
        """See `Session.count_sharing`."""
        check_count(most, "most", most=_MOST_COUNTED)
        owner = await self._context.owner((await self._context.block(label)).scope)
        if owner.scope == "session":
            return 1
        query = SessionQuery(
            namespace=self._runtime.namespace,
            limit=most,
            agent=owner.agent,
            channel=owner.channel,
            peer=owner.peer,
            thread=owner.thread,
        )
        return len(await self._runtime.store.page(query))


def _role(path: Path, item: Item) -> str:
    """The role of an item that is not a span."""
    if isinstance(item, OverlayItem):
        return "summary"
    assert isinstance(item, EditItem)
    message = path.tree.replaced[item.place].message
    return "user" if message is None else message.role


def _block(block: ContextBlock, frozen: PromptRow | None) -> PromptBlock:
    state = None if frozen is None else states_of(frozen).get(block.label)
    return PromptBlock(
        block.label,
        block.description,
        block.kind,
        block.scope,
        block.tokens,
        block.max_tokens,
        block.version,
        None if state is None else state[0],
        frozen is not None and state != block_state(block),
    )
