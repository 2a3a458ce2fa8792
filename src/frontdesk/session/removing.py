"""What removes messages of a session or moves its head: each call is one plan, which can be bound to the head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from frontdesk.checks import check_list
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.errors import InvalidMessageError, MessageNotFoundError
from frontdesk.history import trees, views
from frontdesk.messages import SUMMARY_PREFIX, Message, check_id
from frontdesk.session.forgetting import Forgetter
from frontdesk.session.handle import Handle
from frontdesk.store import AnyHead, Plan
from frontdesk.tree import edits, plans
from frontdesk.tree.tree import Tree

ExpectedHead = str | AnyHead | None
"""an id, None for no head, or ANY_HEAD for no check"""


class Remover:
    """Removes messages for a handle, and moves its head."""

    def __init__(
        self, handle: Handle, prompt: FrozenPrompt, forgetter: Forgetter, after_cut: Callable[[], None]
    ) -> None:
        self._handle = handle
        self._prompt = prompt
        self._forgetter = forgetter
        self._after_cut = after_cut
        """called when messages were deleted under a summary, which is hidden now"""

    async def delete(self, ids: Iterable[str], expected_head: ExpectedHead) -> int:
        """Remove messages; see `Session.delete_messages`."""
        wanted = list(dict.fromkeys(check_id(message_id, "message id") for message_id in check_list(ids, "ids")))
        for message_id in wanted:
            if message_id.startswith(SUMMARY_PREFIX):
                raise InvalidMessageError(f"{message_id!r} is a summary, not a message: use `undo_compaction`")
        removed, is_cut = 0, False

        async def build(tree: Tree) -> Plan | None:
            nonlocal removed, is_cut
            places = [place for message_id in wanted if (place := tree.find(message_id)) is not None]
            removed = len(places)
            if not places:
                return None
            await self._forgetter.forget_messages(tree, places)
            plan = edits.delete_messages(tree, places, self._handle.runtime.now())
            is_cut = edits.cuts_summaries(plan)
            return plan

        await self._handle.change(build, find=wanted, family=touches_others(wanted), expected_head=expected_head)
        if is_cut:
            self._after_cut()
        return removed

    async def pop(self, expected_head: ExpectedHead) -> Message | None:
        """Remove the message at the head; see `Session.pop`."""
        popped: Message | None = None
        is_cut = False

        async def build(tree: Tree) -> Plan | None:
            nonlocal popped, is_cut
            popped, head = None, tree.session.head
            if head is None:
                return None
            (popped,) = await views.read_all(self._handle.runtime, tree.between(head, head))
            await self._forgetter.forget_messages(tree, [head])
            plan = edits.delete_messages(tree, [head], self._handle.runtime.now(), {head: popped.id})
            is_cut = edits.cuts_summaries(plan)
            return plan

        def is_shared(tree: Tree) -> bool:
            return tree.session.head is not None and edits.touches_others(tree, [tree.session.head])

        await self._handle.change(build, family=is_shared, expected_head=expected_head)
        if is_cut:
            self._after_cut()
        return popped

    async def clear(self, expected_head: ExpectedHead) -> None:
        """Remove all messages and overlays; see `Session.clear_messages`."""

        async def build(tree: Tree) -> Plan | None:
            await self._forgetter.forget_all(tree)
            return plans.clear_messages(tree.rows, self._handle.runtime.now())

        if await self._handle.change(build, family=True, expected_head=expected_head):
            await self._prompt.forget(self._handle.id)

    async def switch(self, leaf: str | None, expected_head: ExpectedHead) -> None:
        """Make a message the head, or (None) have no head. Raises `MessageNotFoundError`."""

        async def build(tree: Tree) -> Plan | None:
            place = None if leaf is None else trees.place_of(tree, leaf)
            return None if place == tree.session.head else plans.switch(tree, place, self._handle.runtime.now())

        find = [] if leaf is None else [leaf]
        if not await self._handle.change(build, find=find, expected_head=expected_head) and leaf is not None:
            raise MessageNotFoundError(leaf, self._handle.name)


def touches_others(ids: Sequence[str]) -> Callable[[Tree], bool]:
    """Whether other sessions may see the messages with these ids."""

    def touches(tree: Tree) -> bool:
        places = [place for message_id in ids if (place := tree.find(message_id)) is not None]
        return edits.touches_others(tree, places)

    return touches
