"""Removes the facts that were extracted from messages, before the messages are deleted: from the block, its earlier
versions, the notes about them, and the frozen prompts that show them or that messages on changes belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from frontdesk.compaction import facts, memory
from frontdesk.compaction.facts import EXTRACTIONS, BlockFacts, Extraction
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.deadlines import one_call
from frontdesk.session.fact_notes import FactNotes
from frontdesk.session.handle import Handle
from frontdesk.store import DocumentName, DocumentRow, Owner, Place, SessionQuery
from frontdesk.tree.owners import is_of, key_of, owner_of
from frontdesk.tree.tree import Tree

_AUTHOR = "memory"
_BATCH = 100


class Forgetter:
    """Forgets facts for a handle. Every step can be repeated, so that a call that was interrupted can be called again.

    The notes on extractions are deleted last: as long as they exist, what they name can be found."""

    def __init__(self, handle: Handle, prompt: FrozenPrompt) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._prompt = prompt
        self._notes = FactNotes(handle)

    async def forget_messages(self, tree: Tree, places: Sequence[Place]) -> None:
        """Forget the facts that came from messages at these places. The other messages that they came from are read
        again by the next extraction."""
        found, removed = await self._notes.extractions(), facts.runs_of(places)
        await self._forget(tree, {key: each for key, each in found.items() if facts.overlap(each.runs, removed)})

    async def forget_all(self, tree: Tree) -> None:
        """Forget the facts that came from any message of the session."""
        await self._forget(tree, await self._notes.extractions())

    async def forget_edited(self) -> None:
        """Forget the facts that came from messages whose text has changed since: they are read again."""
        edited = (await self._notes.progress()).edited
        tree = await self._handle.tree() if edited else None
        if tree is None:
            return
        found = {key: each for key, each in (await self._notes.extractions()).items() if not each.is_quote}
        await self._forget(tree, {key: each for key, each in found.items() if facts.overlap(each.runs, edited)})
        # Edits that were noted meanwhile stay.
        await self._notes.change_progress(lambda now: replace(now, edited=now.edited[len(edited) :]))

    async def forget_session(self, tree: Tree) -> None:
        """The same for a session that is about to be deleted; `tree` has its family. A fact stays if another session
        that reads the same block still has its messages, as after `compact_and_split`."""
        found = await self._notes.extractions()
        if not found:
            return
        kept = await self._kept_by_others(tree, found)
        await self._forget(tree, {key: each for key, each in found.items() if key not in kept})

    async def _forget(self, tree: Tree, affected: Mapping[str, Extraction]) -> None:
        """Withdraw extractions and remove their notes. First, a note says that their messages have to be read again:
        some of them stay, and all of them if the deletion is refused in the end."""
        if not affected:
            return
        runs = [run for each in affected.values() if not each.is_quote for run in each.runs]
        await self._notes.change_progress(lambda now: replace(now, again=[*now.again, *runs]))
        await self._withdraw(tree, affected)
        for key in affected:
            await self._notes.replace_extraction(key, None)
        await self._notes.change_progress(
            lambda now: replace(now, left_over=[key for key in now.left_over if key not in affected])
        )

    async def _kept_by_others(self, tree: Tree, found: Mapping[str, Extraction]) -> set[str]:
        session = tree.session
        names = [
            DocumentName(Owner("session", other.id), EXTRACTIONS, key)
            for other in tree.rows.sessions
            if other.number != session.number
            for key, each in found.items()
            if owner_of(each.scope, other.id, key_of(other)) == owner_of(each.scope, session.id, key_of(session))
        ]
        rows = await self._runtime.store.get_documents(self._runtime.namespace, names) if names else []
        return {row.key for row in rows if row is not None}

    async def _withdraw(self, tree: Tree, affected: Mapping[str, Extraction]) -> None:
        for key, each in affected.items():
            await self._notes.replace_extraction(key, replace(each, withdrawn=True))
        session = tree.session
        for label, scope in dict.fromkeys((each.label, each.scope) for each in affected.values()):
            name = DocumentName(owner_of(scope, session.id, key_of(session)), label)
            chosen = {key: each for key, each in affected.items() if (each.label, each.scope) == (label, scope)}
            await self.withdraw(name, chosen)
            await self._drop_prompts_elsewhere(name.owner)
        await self._prompt.forget(session.id)

    async def _drop_prompts_elsewhere(self, owner: Owner) -> None:
        """Drop the prompts of the sessions that read a block, if a prompt store keeps them: the store drops its own."""
        if self._runtime.settings.context.prompt_store is None or owner.scope == "session":
            return
        query = SessionQuery(
            namespace=self._runtime.namespace,
            limit=_BATCH,
            agent=owner.agent,
            channel=owner.channel,
            peer=owner.peer,
            thread=owner.thread,
            order="created",
        )
        while rows := await self._runtime.store.page(query):
            for row in rows:
                if is_of(row, self._runtime.namespace, owner):
                    await self._prompt.forget(row.id)
            query = replace(query, after=(0, rows[-1].number))

    @one_call
    async def withdraw(self, name: DocumentName, chosen: Mapping[str, Extraction]) -> None:
        """Remove the facts of extractions from a block and from the note about it, together."""
        attempts = self._runtime.block_attempts(name.label)
        await attempts.another()
        while not await self._redact(name, chosen):
            await attempts.another()

    async def _redact(self, name: DocumentName, chosen: Mapping[str, Extraction]) -> bool:
        """Remove facts from all versions of a block, and note it; False if one of the two has changed meanwhile.

        While an extraction is being delivered, the block gets a new version in any case: then what the delivery read
        has changed, so that it reads again, and finds its extraction withdrawn."""
        store, namespace = self._runtime.store, self._runtime.namespace
        noted = await self._notes.block_facts(name.owner, name.label)
        decided = facts.withdraw(noted.facts, chosen)
        versions = await store.document_versions(namespace, name) if name.label else []
        rewritten = [replace(row, content=facts.without_lines(row.content, decided.gone)) for row in versions]
        last = max((row.version for row, new in zip(versions, rewritten, strict=True) if row != new), default=-1)
        is_delivering = any(each.left_over for each in chosen.values())
        if not name.label or (last < 0 and not is_delivering):
            after = _with_pending(decided.notes, decided.restored if name.label else [])
            return after == noted.facts or await self._notes.put_facts(noted, after)
        newest, pending = self._newest(name, rewritten, decided.restored)
        after = _with_pending(decided.notes, pending)
        # Also prompts that show earlier versions: the messages on what has changed since belong to them.
        return await store.rewrite_document(
            namespace,
            name,
            [*rewritten[1:], newest],
            versions[0].version if versions else 0,
            hide=list(range(last + 1)),
            # Also one that stays as it is: a delivery may have written both between the two reads.
            note=self._notes.next_facts(noted, after),
            fence=self._handle.turn,
        )

    def _newest(
        self, name: DocumentName, versions: Sequence[DocumentRow], restored: Sequence[str]
    ) -> tuple[DocumentRow, list[str]]:
        """The new current version of a block, which replaces that of `versions`, and the facts that do not fit."""
        declared = next((one for one in self._runtime.settings.context.declarations if one.label == name.label), None)
        content = versions[0].content if versions else "" if declared is None else declared.default_content
        merged = memory.merge_memory(content, restored)
        limit = None if declared is None else declared.max_tokens
        fits = declared is not None and (limit is None or self._runtime.settings.counter(merged) <= limit)
        row = DocumentRow(
            label=name.label,
            version=versions[0].version + 1 if versions else 1,
            content=merged if fits else content,
            author=_AUTHOR,
            created_at=self._runtime.now(),
        )
        return row, [] if fits else list(restored)


def _with_pending(notes: BlockFacts, pending: Sequence[str]) -> BlockFacts:
    return replace(notes, pending=list(dict.fromkeys([*notes.pending, *pending])))
