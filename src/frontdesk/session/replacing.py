"""Replaces all messages of a session by a list, in one transaction. Frameworks that keep the whole list themselves hand
it over after each step: what has not changed since is not written again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frontdesk.errors import HeadMovedError, InvalidMessageError
from frontdesk.history import views
from frontdesk.messages import Message
from frontdesk.messages.ingestion import Ingested
from frontdesk.session.forgetting import Forgetter
from frontdesk.session.handle import Handle
from frontdesk.session.removing import ExpectedHead
from frontdesk.session.writing import Given, Writer
from frontdesk.store import FOLLOW_HEAD, AnyHead, Append, Item, Place, Plan
from frontdesk.tree import replacing
from frontdesk.tree.items import batches, first_items
from frontdesk.tree.sharing import joined
from frontdesk.tree.tree import Tree

_PORTION = 1_024


class Replacer:
    """Replaces the messages of a handle."""

    def __init__(self, handle: Handle, writer: Writer, forgetter: Forgetter) -> None:
        self._handle = handle
        self._writer = writer
        self._forgetter = forgetter

    async def replace(self, messages: Iterable[Given], expected_head: ExpectedHead) -> list[Message]:
        """See `Session.replace_messages`."""
        given = self._writer.ingest_all(messages)
        _refuse_repeated(given)
        while True:
            plan = _Replacement(self._handle, self._forgetter, given)
            if await self._handle.change(plan.build, expected_head=expected_head):
                return await self._finish(plan)
            if not given:
                return []
            try:
                appended = await self._writer.store(given, parent=FOLLOW_HEAD, expected_head=None, reopen=False)
            except HeadMovedError:
                if not isinstance(expected_head, AnyHead):
                    raise
                continue  # another worker has just made the session
            return [each.message for each in appended]

    async def _finish(self, plan: _Replacement) -> list[Message]:
        """The messages that the session has now, after what follows an append."""
        new = Message.from_run([one.stored for one in plan.new], plan.kept[-1].id if plan.kept else None)
        row = await self._handle.find_row() if new else None
        if row is not None:
            await self._writer.after_write(new, row)
        return [*plan.kept, *new]


class _Replacement:
    """A list of messages, and what of it a session has already."""

    def __init__(self, handle: Handle, forgetter: Forgetter, given: Sequence[Ingested]) -> None:
        self._handle = handle
        self._forgetter = forgetter
        self._given = given
        self.kept: list[Message] = []

    @property
    def new(self) -> Sequence[Ingested]:
        """The messages to write."""
        return self._given[len(self.kept) :]

    async def build(self, tree: Tree) -> Plan | None:
        path = tree.lay(tree.session.head, overlays=False)
        self.kept = await self._read_kept(path)
        removed = replacing.places_beyond(tree, path, len(self.kept))
        if replacing.needs_family(tree, removed, all_go=not self.kept):
            family = await self._handle.tree(family=True)
            if family is None or _moment(family) != _moment(tree):
                raise views.MovedError
            tree = family
        runtime = self._handle.runtime
        request = Append(
            namespace=runtime.namespace,
            session_id=tree.session.id,
            messages=tuple(one.stored for one in self.new),
            fresh=tuple(not one.id_given for one in self.new),
            now=runtime.now(),
            existing=True,
        )
        ids = await self._read_ids(removed) if self.kept else dict.fromkeys(removed, "")
        plan = replacing.replace_all(tree, ids, request, all_go=not self.kept)
        if removed and self.kept:
            await self._forgetter.forget_messages(tree, removed)
        elif removed:
            await self._forgetter.forget_all(tree)
        return plan

    async def _read_kept(self, path: Sequence[Item]) -> list[Message]:
        """The messages that the path and the list begin with; no more are read than the list has."""
        given = {one.stored.id for one in self._given if one.id_given}
        kept: list[Message] = []
        for batch in batches(first_items(path, len(self._given)), _PORTION):
            for message in await views.read_all(self._handle.runtime, batch):
                new = self._given[len(kept)]
                if not replacing.is_unchanged(message.stored, new.stored, fresh=not new.id_given, given=given):
                    return kept
                kept.append(message)
        return kept

    async def _read_ids(self, places: Sequence[Place]) -> dict[Place, str]:
        runs = list(joined(places))
        messages = await views.read_all(self._handle.runtime, runs)
        ordered = (Place(run.segment, at) for run in runs for at in range(run.first, run.last + 1))
        return {place: message.id for place, message in zip(ordered, messages, strict=True)}


def _moment(tree: Tree) -> tuple[int, Place | None]:
    """What differs as soon as a message is added or removed."""
    return tree.session.revision, tree.session.head


def _refuse_repeated(given: Sequence[Ingested]) -> None:
    seen: set[str] = set()
    for message_id in (one.stored.id for one in given):
        if message_id in seen:
            raise InvalidMessageError(f"message {message_id!r} is in the list twice", id=message_id)
        seen.add(message_id)
