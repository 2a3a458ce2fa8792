"""THE SEAM: what a store must do, and the rows that pass through it.

A store keeps rows and makes changes atomic. It knows segments, positions and revisions, but no rule of the product:
paths, overlays, windows and budgets are computed above, in `tree`, and come down as a `Selection` to read or a `Plan`
to apply. Only what must be decided against the head in one step (append) is a primitive of its own.

Vocabulary: a *segment* is a run of messages with consecutive positions, owned by one *tree* (one session's messages).
A message lives at `(segment, position)`; positions are never used again. Trees that share messages through forks form
a *family*. `revision` counts the changes of a session other than appending at the end.
"""

from frontdesk.store.changes import BEGINNING, ChangeKind, ChangeRow, NewChange, Position
from frontdesk.store.protocols import ChangeStore, DocumentStore, LeaseStore, Store
from frontdesk.store.requests import (
    FOLLOW_HEAD,
    Append,
    AppendedRow,
    AppendResult,
    Choose,
    FollowHead,
    NewEdit,
    NewFork,
    NewOverlay,
    NewSession,
    Plan,
    SessionQuery,
    UsageQuery,
)
from frontdesk.store.rows import (
    MAX_NAMESPACE,
    SEGMENT_SIZE,
    DocumentRow,
    EditItem,
    EditKind,
    EditRow,
    Found,
    Item,
    LeaseRow,
    Lineage,
    OverlayItem,
    OverlayRow,
    Piece,
    Place,
    PromptRow,
    SegmentRow,
    SessionRow,
    Span,
    StatsRow,
    TreeRows,
    UsageRow,
    ViewRead,
    ViewRow,
)
from frontdesk.store.states import MAX_STATE_NAME, StateKey, StateRow, StateStore, Swept

__all__ = [
    "BEGINNING",
    "FOLLOW_HEAD",
    "MAX_NAMESPACE",
    "MAX_STATE_NAME",
    "SEGMENT_SIZE",
    "Append",
    "AppendResult",
    "AppendedRow",
    "ChangeKind",
    "ChangeRow",
    "ChangeStore",
    "Choose",
    "DocumentRow",
    "DocumentStore",
    "EditItem",
    "EditKind",
    "EditRow",
    "FollowHead",
    "Found",
    "Item",
    "LeaseRow",
    "LeaseStore",
    "Lineage",
    "NewChange",
    "NewEdit",
    "NewFork",
    "NewOverlay",
    "NewSession",
    "OverlayItem",
    "OverlayRow",
    "Piece",
    "Place",
    "Plan",
    "Position",
    "PromptRow",
    "SegmentRow",
    "SessionQuery",
    "SessionRow",
    "Span",
    "StateKey",
    "StateRow",
    "StateStore",
    "StatsRow",
    "Store",
    "Swept",
    "TreeRows",
    "UsageQuery",
    "UsageRow",
    "ViewRead",
    "ViewRow",
]
