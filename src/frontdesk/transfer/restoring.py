"""Writing a family with new numbers: which numbers it gets, and the entries of the change log that announce it, so that
the index and all readers of the log see it."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.store import LoggedChange, NewChange, Owner, Restore, RestoredSession
from frontdesk.store.changes import block_changed, detail, session_created
from frontdesk.transfer.families import BATCH, Family, Renumbering, renumbered, transfer_store


class SessionNumbers:
    """New numbers for sessions, trees and families, in the order of the old ones, so that the order of creation stays.
    They are drawn in blocks, as far as they are needed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._drawn: list[int] = []

    def get(self, number: int) -> int:
        """The new number for the old one, which counts from 1."""
        return self._drawn[number - 1]

    async def reach(self, number: int) -> None:
        """Draw numbers up to that of an old one."""
        missing = number - len(self._drawn)
        if missing > 0:
            draw = transfer_store(self._runtime).draw_numbers
            self._drawn += await draw(self._runtime.namespace, "session", missing + BATCH)


def family_rows(family: Family, numbers: Renumbering, namespace: str, now: int) -> Restore:
    """What makes a family visible: all of it except its messages and usage entries."""
    new = renumbered(family, numbers, namespace)
    by_id = {row.id: row.number for row in new.sessions}
    return Restore(
        namespace=namespace,
        family=new.number,
        segments=new.segments,
        overlays=new.overlays,
        edits=new.edits,
        lineage=new.lineage,
        sessions=tuple(RestoredSession(row, new.views.get(row.number)) for row in new.sessions),
        prompts=tuple((by_id[session_id], prompt) for session_id, prompt in new.prompts.items()),
        documents=tuple(
            (Owner("session", session_id), row) for session_id, rows in new.documents.items() for row in rows
        ),
        log=tuple(_announcements(new, now)),
    )


def _announcements(family: Family, now: int) -> list[LoggedChange]:
    """Log entries for the sessions of a family, their messages, edits, overlays and blocks."""
    entries = [LoggedChange(row.number, now, session_created(row.parent_session_id)) for row in family.sessions]
    owners = {row.tree: row.number for row in family.sessions}
    founder = family.sessions[0].number
    for segment in family.segments:
        if segment.last >= 0:
            change = NewChange(kind="message.appended", segment=segment.number, first=0, last=segment.last)
            entries.append(LoggedChange(owners.get(segment.tree, founder), now, change))
    for edit in family.edits:
        if edit.kind == "replaced":
            change = NewChange(
                kind="message.updated", segment=edit.segment, first=edit.first, last=edit.last, number=edit.number
            )
            entries.append(LoggedChange(owners.get(edit.tree, founder), now, change))
    for overlay in family.overlays:
        what = detail(id=overlay.id, kind=overlay.kind)
        change = NewChange(kind="compaction.added", number=overlay.number, detail=what)
        entries.append(LoggedChange(owners.get(overlay.tree, founder), now, change))
    for row in family.sessions:
        for label in dict.fromkeys(document.label for document in family.documents[row.id]):
            entries += [LoggedChange(row.number, now, change) for change in block_changed(label, "session")]
    return entries
