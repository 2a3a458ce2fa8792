"""Pure: the plan of a fork, and what a session must know about the path to its head so that a fork needs no tree.

Separate from the other plans, because a fork at the head must cost the same for every session.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from frontdesk.store import (
    Columns,
    DocumentRow,
    ForkedDocuments,
    NewFork,
    NewSession,
    OverlayRow,
    Place,
    Plan,
    Scope,
    SessionRow,
    ViewRow,
    changes,
)
from frontdesk.tree.items import count
from frontdesk.tree.owners import key_of, owner_of
from frontdesk.tree.sessions import ended
from frontdesk.tree.tree import Tree, whole_view

_ALL_DOCUMENTS = ForkedDocuments()


def forked_documents(
    source: SessionRow,
    new: NewSession,
    wide: Sequence[tuple[str, Scope]],
    notes: Sequence[str] = (),
    start: Sequence[DocumentRow] = (),
) -> ForkedDocuments:
    """Which documents a fork starts with. `wide` are the labels that can belong to more than the session, with their
    scopes; `notes` are labels about the memory of a guest, and `start` replaces them for another guest.

    Without a key, the fork has copies of what its source shares with other sessions. With a key, it shares what belongs
    to that key, and copies nothing of the kind. The frozen prompt shows the blocks of the source: only a fork that has
    the same blocks, or copies of them, takes it along."""
    before, after = key_of(source), key_of(new)
    labels = tuple(label for label, _ in wide)
    if after is None:
        if before is None:
            return _ALL_DOCUMENTS
        return ForkedDocuments(
            leave=labels, copy=tuple((owner_of(scope, source.id, before), label) for label, scope in wide)
        )
    if before is None or before[:3] != after[:3]:
        return ForkedDocuments(leave=(*labels, *notes), add=tuple(start), prompt=False)
    shares_all = all(owner_of(scope, "", before) == owner_of(scope, "", after) for _, scope in wide)
    return ForkedDocuments(leave=labels, prompt=shares_all)


def with_path_known(tree: Tree, view: ViewRow) -> ViewRow:
    """A view at the head, with what a fork there must know."""
    path = tree.path(tree.session.head)
    return replace(
        view,
        own=tuple(place for place in path if tree.owns(place.segment)),
        messages_aside=tree.session.message_count - count(tree.lay(tree.session.head, overlays=False)),
        overlays_aside=len(tree.overlays) - _overlays_on(tree, path),
    )


def fork_at_head(
    session: SessionRow, view: ViewRow, new: NewSession, now: int, documents: ForkedDocuments = _ALL_DOCUMENTS
) -> Plan | None:
    """A session that sees the path to the head of another as it is now, and shares it.

    None if the view at the head is stale: then only the tree says what is on the path."""
    if session.view == "stale":
        return None
    head, is_stored = session.head, session.view == "stored"
    # A plain view is its tail. What was before it on the path, if anything, is removed, and stays so.
    share = dict(view.own) if is_stored else {}
    if head is not None and session.tail <= head.position:
        share[head.segment] = head.position
    made = NewFork(
        session=new,
        base=head,
        view=None if head is None else ViewRow(tuple(whole_view(session, view)), head),
        view_tokens=session.view_tokens,
        view_messages=session.view_messages,
        message_count=session.message_count - view.messages_aside if is_stored else session.view_messages,
        compaction_count=session.compaction_count - view.overlays_aside if is_stored else 0,
        # Segments of other trees were shared when this session was forked, and stay so as long as it lives.
        share=tuple(Place(*place) for place in share.items()),
        documents=documents,
    )
    return Plan(guards=((session.number, session.revision),), now=now, fork=made)


def fork(tree: Tree, new: NewSession, at: Place | None, now: int, documents: ForkedDocuments = _ALL_DOCUMENTS) -> Plan:
    """A session that sees the path to `at` as it is now, and shares it."""
    session, path = tree.session, tree.path(at)
    plan = fork_at_head(session, tree.rows.view, new, now, documents) if at == session.head else None
    if plan is not None:
        return plan
    made = NewFork(
        session=new,
        base=at,
        view=None,
        view_tokens=0,
        view_messages=0,
        message_count=count(tree.lay(at, overlays=False)),
        compaction_count=_overlays_on(tree, path),
        share=tuple(place for place in path if place.position > tree.segments[place.segment].shared),
        documents=documents,
    )
    return Plan(guards=((session.number, session.revision),), now=now, fork=made)


def split(tree: Tree, new: NewSession, reason: str, now: int, documents: ForkedDocuments = _ALL_DOCUMENTS) -> Plan:
    """End a session for a reason, and continue in a fork of it that takes over its key and its turn."""
    values: Columns = {**ended(reason, now), "key_current": False}
    made = fork(tree, new, tree.session.head, now, documents)
    return replace(made, set=values, hand_over=(), log=(changes.session_changed(values),))


def _overlays_on(tree: Tree, path: Sequence[Place]) -> int:
    """How many overlays are on a path, outermost or not."""
    ends = {place.segment: place.position for place in path}

    def is_on_path(overlay: OverlayRow) -> bool:
        return all(end.position <= ends.get(end.segment, -1) for end in (overlay.start, overlay.end))

    return sum(1 for overlay in tree.overlays if is_on_path(overlay))
