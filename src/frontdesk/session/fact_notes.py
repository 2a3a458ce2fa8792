"""Reads and writes the notes about extracted facts; `compaction.facts` says what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from frontdesk.compaction import facts
from frontdesk.compaction.facts import EXTRACTIONS, FACTS, PROGRESS, BlockFacts, Extraction, Progress
from frontdesk.deadlines import one_call
from frontdesk.messages import new_id
from frontdesk.session.handle import Handle
from frontdesk.store import DocumentName, DocumentRow, Owner, Place


class NotedFacts(NamedTuple):
    """The note on the facts of a block, as it was read. A new version is written only if this is still the newest."""

    name: DocumentName
    row: DocumentRow | None
    facts: BlockFacts


class FactNotes:
    """The notes of one session, and of the blocks that its facts go to."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._runtime = handle.runtime

    async def progress(self) -> Progress:
        return facts.decode_progress(await self._get(await self._name(PROGRESS)), self._handle.name)

    @one_call
    async def change_progress(self, change: Callable[[Progress], Progress]) -> None:
        name = await self._name(PROGRESS)
        attempts = self._runtime.attempts(self._handle.name)
        while True:
            await attempts.another()
            row = await self._get(name)
            before = facts.decode_progress(row, self._handle.name)
            after = change(before)
            if after == before or await self._put(name, facts.encode(after), row):
                return

    async def note_edit(self, place: Place) -> None:
        """Note that the text of a message has changed, if there are facts that came from it."""
        edited = facts.runs_of([place])
        found = (await self.extractions()).values()
        if any(facts.overlap(each.runs, edited) for each in found if not each.is_quote):
            await self.change_progress(lambda now: replace(now, edited=[*now.edited, *edited]))

    async def record(self, extraction: Extraction) -> str:
        """Store a new extraction. Returns its key."""
        key = new_id()
        await self._put(await self._name(EXTRACTIONS, key), facts.encode(extraction), None)
        return key

    async def extractions(self) -> dict[str, Extraction]:
        """All extractions of the session, including those that are withdrawn."""
        owner = (await self._name(EXTRACTIONS)).owner
        rows = await self._runtime.store.list_documents(self._runtime.namespace, owner, EXTRACTIONS)
        return {row.key: facts.decode_extraction(row) for row in rows}

    async def get_extractions(self, keys: Sequence[str]) -> dict[str, Extraction]:
        """The extractions with these keys that were neither withdrawn nor removed."""
        owner = (await self._name(EXTRACTIONS)).owner
        names = [DocumentName(owner, EXTRACTIONS, key) for key in keys]
        rows = await self._runtime.store.get_documents(self._runtime.namespace, names)
        found = {row.key: facts.decode_extraction(row) for row in rows if row is not None}
        return {key: each for key, each in found.items() if not each.withdrawn}

    @one_call
    async def replace_extraction(self, key: str, extraction: Extraction | None) -> None:
        """Store an extraction again, or remove it (None). One that was removed or withdrawn stays so."""
        name = await self._name(EXTRACTIONS, key)
        attempts = self._runtime.attempts(self._handle.name)
        while True:
            await attempts.another()
            row = await self._get(name)
            if row is None:
                return
            if extraction is not None:
                if facts.decode_extraction(row).withdrawn:
                    return
                done = await self._put(name, facts.encode(extraction), row)
            else:
                done = await self._runtime.store.rewrite_document(
                    self._runtime.namespace, name, [], row.version, fence=self._handle.turn
                )
            if done:
                return

    @one_call
    async def change_facts(self, owner: Owner, label: str, change: Callable[[BlockFacts], BlockFacts]) -> None:
        """Change the note on the facts of a block whose content does not change with it, again if another writer was
        first."""
        attempts = self._runtime.block_attempts(label)
        while True:
            await attempts.another()
            noted = await self.block_facts(owner, label)
            after = change(noted.facts)
            if after == noted.facts or await self.put_facts(noted, after):
                return

    async def block_facts(self, owner: Owner, label: str) -> NotedFacts:
        """The note on the facts of a block."""
        name = DocumentName(owner, FACTS, label)
        row = await self._get(name)
        return NotedFacts(name, row, facts.decode_facts(row))

    def next_facts(self, noted: NotedFacts, after: BlockFacts) -> DocumentRow:
        """The next version of a note on facts, to be written together with the block."""
        return self._version(noted.name, facts.encode(after), noted.row)

    async def put_facts(self, noted: NotedFacts, after: BlockFacts) -> bool:
        """Write a note on facts alone; False if it has changed since it was read."""
        return await self._put(noted.name, facts.encode(after), noted.row)

    async def _name(self, label: str, key: str = "") -> DocumentName:
        await self._handle.readable_id()
        return DocumentName(Owner("session", self._handle.future_id), label, key)

    async def _get(self, name: DocumentName) -> DocumentRow | None:
        return (await self._runtime.store.get_documents(self._runtime.namespace, [name]))[0]

    async def _put(self, name: DocumentName, content: str, before: DocumentRow | None) -> bool:
        return await self._runtime.store.put_document(
            self._runtime.namespace,
            name.owner,
            self._version(name, content, before),
            keep_history=False,
            fence=self._handle.turn,
        )

    def _version(self, name: DocumentName, content: str, before: DocumentRow | None) -> DocumentRow:
        return DocumentRow(
            label=name.label,
            key=name.key,
            version=1 if before is None else before.version + 1,
            content=content,
            created_at=self._runtime.now(),
        )
