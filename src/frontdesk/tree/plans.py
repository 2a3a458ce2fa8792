"""Pure: turns a change of a session (of its row, its head, its overlays, or all of its messages) into the `Plan` that a
store applies. Changes of single messages are in `edits`.

A plan that changes what is seen leaves the view "stale"; the next reader computes and stores it (`store_view`).

Example, used below: A appended 0..9 to segment 1, and overlay 7, a summary, covers 0..4. Then B was forked from A, so
both see all ten messages and overlay 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from msgspec.structs import replace

from frontdesk.store import (
    AnyHead,
    Columns,
    EditItem,
    NewEdit,
    NewOverlay,
    OverlayRow,
    Place,
    Plan,
    SessionRow,
    Span,
    TreeRows,
    ViewRow,
    changes,
)
from frontdesk.tree.forks import with_path_known
from frontdesk.tree.release import release, release_tree_guards
from frontdesk.tree.sharing import (
    Guards,
    cut_texts,
    guard,
    other_trees,
    release_guards,
    sees_alone,
)
from frontdesk.tree.tree import Tree, View, unknown_view


def change_row(session: SessionRow, now: int, **values: Unpack[Columns]) -> Plan:
    """Set columns of a session's row that have nothing to do with its messages."""
    return Plan(
        guards=guard(session), now=now, set={**values, "updated_at": now}, log=(changes.session_changed(values),)
    )


def changed_row(session: SessionRow, plan: Plan) -> SessionRow:
    """The row as it reads once `change_row` is applied."""
    return replace(session, revision=session.revision + 1, **plan.set)


def store_view(tree: Tree, view: View, tokens: int, messages: int, now: int) -> Plan:
    """Store a view that a change had left to be computed."""
    known: Columns = {
        "view": "stored" if view.row.items or view.row.before else "plain",
        "tail": view.tail,
        "view_tokens": tokens,
        "view_messages": messages,
    }
    row = with_path_known(tree, view.row)
    return Plan(guards=guard(tree.session), now=now, head=tree.session.head, set=known, view=row)


def with_totals(session: SessionRow, tokens: int, messages: int) -> SessionRow:
    """The row as it reads once its view is stored."""
    return replace(session, view_tokens=tokens, view_messages=messages)


def is_head(tree: Tree, expected: str | AnyHead | None) -> bool:
    """Whether the head is the expected one, which was looked up with the tree."""
    if isinstance(expected, AnyHead):
        return True
    place = None if expected is None else tree.find(expected)
    return place == tree.session.head and (place is not None or expected is None)


def only_at_head(plan: Plan, tree: Tree, expected: str | AnyHead | None) -> Plan:
    """The plan, bound to the head that it was made for: if A pops 9 and 10 is appended first, the plan is not applied.
    No head needs no guard, because the first append to an empty session raises the revision."""
    return plan if isinstance(expected, AnyHead) else replace(plan, head=tree.session.head)


def switch(tree: Tree, leaf: Place | None, now: int) -> Plan:
    """Make a message the head, or (None) have no head: then the view is empty, and the next append starts a new root.
    Example: A switches to 5. Its view is overlay 7 and then 5, and the next append opens a segment after 5."""
    values: Columns = {**unknown_view(leaf), "head": leaf, "updated_at": now}
    return Plan(guards=guard(tree.session), now=now, set=values, log=(changes.head_moved(leaf),))


# overlays


def add_overlay(tree: Tree, overlay: NewOverlay, now: int) -> Plan:
    """Add an overlay over a range. It takes the place of the cut ones in that range, which were waiting to be made
    again. Wants the whole family where others may see one of those.

    Example: A has deleted 2, so overlay 7 is cut. A new overlay over 0..6 replaces it. One over 0..3 does not: 7 still
    hides 4."""
    plan = replace(_cover(tree, overlay, now, {"compacted_at": now}), drop_prompt=True)
    replaced = cut_between(tree, overlay.start, overlay.end)
    if not replaced:
        return plan
    return replace(
        plan,
        **_released_overlays(tree, replaced),
        add={"compaction_count": 1 - len(replaced)},
        log=(*plan.log, *map(changes.compaction_removed, replaced)),
    )


def cut_between(tree: Tree, start: Place, end: Place) -> list[OverlayRow]:
    """The cut overlays of which everything that is left is in a range: overlay 7 is in 2..6 once 0 and 1 are gone."""
    return [
        row for row in tree.overlays if row.is_cut and tree.precedes(row.end, end) and _begins_after(tree, row, start)
    ]


def _begins_after(tree: Tree, overlay: OverlayRow, start: Place) -> bool:
    """Whether the first message that is left of an overlay is at a place or after it."""
    first = tree.covered_items(overlay)[0]
    assert isinstance(first, Span | EditItem)
    return tree.precedes(start, first.place if isinstance(first, EditItem) else Place(first.segment, first.first))


def reset(tree: Tree, overlay: NewOverlay, now: int) -> Plan:
    """Hide a range for a new beginning: prompt and blocks stay, and it does not count as a compaction made."""
    return _cover(tree, overlay, now, {})


def _cover(tree: Tree, overlay: NewOverlay, now: int, values: Columns) -> Plan:
    return Plan(
        guards=guard(tree.session),
        now=now,
        set={**unknown_view(tree.session.head), **values, "updated_at": now},
        add={"compaction_count": 1},
        add_overlays=(overlay,),
        log=(changes.compaction_added(overlay.id, overlay.kind),),
    )


def remove_overlay(tree: Tree, overlay: OverlayRow, now: int) -> Plan:
    """Remove an overlay; what it covered is seen again. Wants the whole family where others may see the overlay."""
    return Plan(
        now=now,
        set={**unknown_view(tree.session.head), "updated_at": now},
        add={"compaction_count": -1},
        log=(changes.compaction_removed(overlay),),
        **_released_overlays(tree, [overlay]),
    )


class _ReleasedOverlays(TypedDict):
    """Fields of a `Plan`."""

    guards: Guards
    delete_overlays: tuple[int, ...]
    cut_overlays: tuple[int, ...]
    add_edits: tuple[NewEdit, ...]
    delete_edits: tuple[int, ...]


def _released_overlays(tree: Tree, overlays: Sequence[OverlayRow]) -> _ReleasedOverlays:
    """What a session writes to release overlays. Example: A undoes overlay 7.

    - B has undone it before: nobody sees it any more, so its row is deleted, and the edits about it.
    - B sees it: the row stays, and an edit says that A does not see it.
    - B sees it cut, because B has deleted 2: the row stays with its range, but without its text."""
    others = other_trees(tree)
    deleted = {overlay.number for overlay in overlays if sees_alone(tree, overlay, others)}
    kept = [overlay for overlay in overlays if overlay.number not in deleted]
    return {
        "guards": release_guards(tree, others, (), overlays),
        "delete_overlays": tuple(deleted),
        "cut_overlays": cut_texts(tree, kept, others),
        "add_edits": tuple(NewEdit(kind="overlay-gone", overlay=overlay.number) for overlay in kept),
        "delete_edits": tuple(edit.number for edit in tree.rows.edits if edit.overlay in deleted),
    }


# whole sessions


def clear_messages(rows: TreeRows, now: int) -> Plan:
    """Give the session an empty tree and remove what nobody sees any more. Wants the whole family. Example: A is
    cleared. The messages stay, because B sees them, but A does not see them any more, and its next append begins a new
    segment."""
    session = rows.session
    values: Columns = {
        **unknown_view(None),
        "head": None,
        "base": None,
        "message_count": 0,
        "compaction_count": 0,
        "updated_at": now,
    }
    released = release(rows, session)
    return Plan(
        guards=release_tree_guards(rows, session, released),
        now=now,
        set=values,
        view=ViewRow(),
        fresh_tree=True,
        drop_prompt=True,
        log=(changes.messages_cleared(),),
        **released._asdict(),
    )


def delete_session(rows: TreeRows, now: int) -> Plan:
    """Remove a session and what nobody else sees. Wants the whole family."""
    session = rows.session
    released = release(rows, session)
    return Plan(
        guards=release_tree_guards(rows, session, released),
        now=now,
        delete_sessions=(session.number,),
        log=(changes.session_deleted(session),),
        **released._asdict(),
    )


def erase_session(rows: TreeRows, now: int) -> Plan:
    """The same, and its log entry does not say which session it was."""
    return replace(delete_session(rows, now), log=(changes.session_erased(),))


def descendants(rows: TreeRows) -> list[SessionRow]:
    """The sessions that were forked from this one, directly or through others: of A, both B and a fork of B. Wants the
    whole family."""
    above = {link.tree: link.ancestor for link in rows.lineage}

    def stems(tree: int | None) -> bool:
        while tree is not None and tree != rows.session.tree:
            tree = above.get(tree)
        return tree is not None

    return [session for session in rows.sessions if session.number != rows.session.number and stems(session.tree)]
