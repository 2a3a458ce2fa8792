"""Windows of a view: reads as much of its end as fits into a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ContextOverflowError
from frontdesk.history.fitting import MoreNeededError, Shortening, TooLongError, fit
from frontdesk.history.views import leading_system, measured_items, read_all, retry_if_moved
from frontdesk.messages import Message
from frontdesk.store import Item, OverlayItem
from frontdesk.tree.items import batches, count, drop_first, drop_last

_BATCH = 512


async def read_window(
    runtime: Runtime,
    session_id: str,
    leaf: str | None,
    last: int | None,
    max_tokens: int,
    by: Shortening,
    reserved: int = 0,
) -> list[Message]:
    """The leading system messages, the summaries, the current turn, and as much before it as fits into `max_tokens`
    together with what is `reserved`; see `fitting.fit`.

    Raises `ContextOverflowError` if the current turn does not fit."""

    async def read() -> list[Message]:
        items, tokens = await measured_items(runtime, session_id, leaf, last)
        lead = await leading_system(runtime, items)
        rest = drop_first(items, len(lead))
        extent = tokens - sum(message.tokens for message in lead) - _pinned(rest)
        taken = reserved + tokens - extent
        try:
            return lead + await _fit(runtime, rest, extent, max_tokens - taken, by)
        except TooLongError as error:
            raise ContextOverflowError(taken + error.needed, max_tokens, session_id) from None

    return await retry_if_moved(runtime, read, session_id)


def _pinned(items: Sequence[Item]) -> int:
    """The tokens of the summaries among some items: they always stay."""
    return sum(item.tokens for item in items if isinstance(item, OverlayItem))


async def _fit(runtime: Runtime, items: list[Item], extent: int, room: int, by: Shortening) -> list[Message]:
    """Read from the end backwards until it is decided what is kept."""
    if not extent and room < 0:
        raise TooLongError(0)
    read: list[Message] = []
    for batch in batches(items, _BATCH, reverse=True):
        read = await read_all(runtime, batch) + read
        unread = drop_last(items, len(read))
        try:
            kept = fit(read, extent, room, by, complete=not unread)
        except MoreNeededError:
            continue
        summaries = [item for item in unread if isinstance(item, OverlayItem)]
        return await read_all(runtime, summaries) + kept
    assert not count(items)
    return []
