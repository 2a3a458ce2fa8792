"""What a session that is made from another one starts with: its row, and which documents it has."""

from __future__ import annotations

from frontdesk.checks import check_text
from frontdesk.compaction.facts import EXTRACTIONS, FACTS, PROGRESS, Progress, encode
from frontdesk.config.runtime import Runtime
from frontdesk.context.sources import stored_scope
from frontdesk.store import DocumentRow, ForkedDocuments, NewSession, SessionRow, metadata_of, tags_of
from frontdesk.tree import forks
from frontdesk.tree.owners import KEY_SCOPES, Key


def forked_session(source: SessionRow, session_id: str, name: str | None, now: int, key: Key | None) -> NewSession:
    """The row of a session that is made from another. Its name and summary say what the whole conversation is about:
    another guest, who sees a part of it, does not get them. Raises `DamagedRecordError`."""
    tags_of(source)  # what is damaged is not copied
    metadata_of(source)
    is_same_guest = key is None or (source.agent, source.channel, source.peer) == key[:3]
    inherited = source.name if is_same_guest else ""
    agent, channel, peer, thread = (None, None, None, None) if key is None else key
    return NewSession(
        namespace=source.namespace,
        id=session_id,
        now=now,
        agent=agent,
        channel=channel,
        peer=peer,
        thread=thread,
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
    )


def forked_documents(runtime: Runtime, source: SessionRow, new: NewSession) -> ForkedDocuments:
    """Which documents a fork starts with. They include the notes about the facts in a memory block; for a fork with
    another guest's key, only if the block is the session's own, which that fork also has."""
    declarations = runtime.settings.context.declarations
    wide = [(one.label, scope) for one in declarations if (scope := stored_scope(one)) in KEY_SCOPES]
    memory = runtime.settings.memory
    wide += [(FACTS, scope) for label, scope in wide if label == memory.label]
    own = [one for one in declarations if one.label == memory.label and stored_scope(one) == "session"]
    notes = (PROGRESS,) if own and memory.sink is None else (PROGRESS, EXTRACTIONS, FACTS)
    start = Progress(after_base=True)
    row = DocumentRow(label=PROGRESS, version=1, content=encode(start), created_at=new.now)
    return forks.forked_documents(source, new, wide, notes, [row])
