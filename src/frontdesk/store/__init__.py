"""THE SEAM: what a store must do, and the rows that pass through it.

A store keeps rows and makes changes atomic. It knows segments, positions and revisions, but no rule of the product:
paths, overlays, windows and budgets are computed above, in `tree`, and come down as a `Selection` to read or a `Plan`
to apply. Only what must be decided against the head in one step (append) is a primitive of its own.

Vocabulary: a *segment* is a run of messages with consecutive positions, owned by one *tree* (one session's messages).
A message lives at `(segment, position)`; positions are never used again. Trees that share messages through forks form
a *family*. `revision` counts the changes of a session other than appending at the end.
"""

from frontdesk.store.protocols import DocumentStore, LeaseStore, Store
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
from frontdesk.store.vectors import TEXT_KINDS, Address, Near, NewVector, Range, TextKind, VectorStore

__all__ = [
    "FOLLOW_HEAD",
    "MAX_NAMESPACE",
    "SEGMENT_SIZE",
    "TEXT_KINDS",
    "Address",
    "Append",
    "AppendResult",
    "AppendedRow",
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
    "Near",
    "NewEdit",
    "NewFork",
    "NewOverlay",
    "NewSession",
    "NewVector",
    "OverlayItem",
    "OverlayRow",
    "Piece",
    "Place",
    "Plan",
    "PromptRow",
    "Range",
    "SegmentRow",
    "SessionQuery",
    "SessionRow",
    "Span",
    "StatsRow",
    "Store",
    "TextKind",
    "TreeRows",
    "UsageQuery",
    "UsageRow",
    "VectorStore",
    "ViewRead",
    "ViewRow",
]
