"""Sessions that start with the history of another: forks, and the successor of a session that was compacted and
ended."""

from __future__ import annotations

from frontdesk.checks import check_summary, check_text
from frontdesk.compaction.facts import EXTRACTIONS, FACTS, PROGRESS, Progress, encode
from frontdesk.config.runtime import Runtime
from frontdesk.context.sources import stored_scope
from frontdesk.errors import SessionExistsError, SessionNotFoundError
from frontdesk.history import trees
from frontdesk.keys import SessionKey
from frontdesk.manager.directory import KeyColumns, key_columns
from frontdesk.messages.ids import check_id, new_id
from frontdesk.records import EndReason
from frontdesk.session.components import Components
from frontdesk.session.endings import ending
from frontdesk.session.handle import Handle
from frontdesk.store import DocumentRow, ForkedDocuments, NewSession, Plan, SessionRow, ViewRow
from frontdesk.tree import forks
from frontdesk.tree.owners import KEY_SCOPES
from frontdesk.tree.tree import Tree


class Forks:
    """Makes sessions from sessions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def fork(
        self,
        ref: str | SessionKey,
        at: str | None,
        name: str | None,
        wanted_id: str | None,
        key: SessionKey | None,
    ) -> str:
        """A fork at a message, or at the head; see `SessionManager.fork`. Returns its id."""
        made = new_id() if wanted_id is None else check_id(wanted_id, "session id")
        columns = key_columns(self._runtime, key)
        takes_prompt = True

        def build_at_head(row: SessionRow, view: ViewRow) -> Plan | None:
            nonlocal takes_prompt
            new = _forked(row, made, name, self._runtime.now(), columns)
            documents = self._documents(row, new)
            takes_prompt = documents.prompt
            return forks.fork_at_head(row, view, new, new.now, documents)

        async def build(tree: Tree) -> Plan | None:
            nonlocal takes_prompt
            place = tree.session.head if at is None else trees.place_of(tree, at)
            new = _forked(tree.session, made, name, self._runtime.now(), columns)
            documents = self._documents(tree.session, new)
            takes_prompt = documents.prompt
            return forks.fork(tree, new, place, new.now, documents)

        source = Components(Handle(self._runtime, ref))
        try:
            is_made = at is None and await source.handle.change_at_head(build_at_head)
            if not is_made and not await source.handle.change(build, find=() if at is None else [at]):
                raise SessionNotFoundError(str(ref), self._runtime.namespace)
        except SessionExistsError:
            taken = await self._runtime.store.get(self._runtime.namespace, made)
            raise SessionExistsError(made if taken else str(key), self._runtime.namespace) from None
        if takes_prompt:
            await source.prompt.copy_to(made)
        self._runtime.hooks.announce(made, "on_session_start")
        return made

    def _documents(self, source: SessionRow, new: NewSession) -> ForkedDocuments:
        """Which documents a fork starts with. With them go the notes about the facts in a memory block: to a fork for
        another guest only if the block is the session's own, which it has, too."""
        declarations = self._runtime.settings.context.declarations
        wide = [(one.label, scope) for one in declarations if (scope := stored_scope(one)) in KEY_SCOPES]
        memory = self._runtime.settings.memory
        wide += [(FACTS, scope) for label, scope in wide if label == memory.label]
        own = [one for one in declarations if one.label == memory.label and stored_scope(one) == "session"]
        notes = (PROGRESS,) if own and memory.sink is None else (PROGRESS, EXTRACTIONS, FACTS)
        start = Progress(after_base=True)
        row = DocumentRow(label=PROGRESS, version=1, content=encode(start), created_at=new.now)
        return forks.forked_documents(source, new, wide, notes, [row])

    async def compact_and_split(self, ref: str | SessionKey, summary: str | None, name: str | None) -> str:
        """End a session and continue in a new one; see `SessionManager.compact_and_split`. Returns the new id."""
        if summary is not None:
            check_summary(summary)
        source = Components(Handle(self._runtime, ref))
        await source.handle.row()
        text = summary if summary is not None else await source.compactor.summarise_all()
        made = new_id()

        async def build(tree: Tree) -> Plan | None:
            row = tree.session
            key = KeyColumns(row.agent, row.channel, row.peer, row.thread) if row.key_current else KeyColumns()
            new = _forked(row, made, name, self._runtime.now(), key)
            return forks.split(tree, new, EndReason.COMPACTION, new.now, self._documents(row, new))

        async with ending(self._runtime, source.handle, EndReason.COMPACTION):
            if not await source.handle.change(build):
                raise SessionNotFoundError(str(ref), self._runtime.namespace)
        self._runtime.hooks.announce(made, "on_session_start")
        await Components(Handle(self._runtime, made)).compactor.cover_all(text)
        return made


_NO_KEY = KeyColumns()


def _forked(source: SessionRow, session_id: str, name: str | None, now: int, key: KeyColumns = _NO_KEY) -> NewSession:
    """The row of a session that is made from another. Its name and summary tell what the whole conversation is about:
    another guest, who sees a part of it, does not get them."""
    is_same_guest = key.agent is None or (source.agent, source.channel, source.peer) == key[:3]
    inherited = source.name if is_same_guest else ""
    return NewSession(
        namespace=source.namespace,
        id=session_id,
        now=now,
        name=inherited if name is None else check_text(name, "name"),
        parent_session_id=source.id,
        model=source.model,
        source=source.source,
        tags=source.tags,
        metadata=source.metadata,
        summary=source.summary if is_same_guest else None,
        max_tokens=source.max_tokens,
        idle_after=source.idle_after,
        archive_after=source.archive_after,
        delete_after=source.delete_after,
        **key._asdict(),
    )
