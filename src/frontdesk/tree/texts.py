"""Pure: decides which texts a plan removes from the search index and the vectors, for all stores."""

from __future__ import annotations

from frontdesk.store import SEGMENT_SIZE, Address, Plan, Range


def removed_texts(plan: Plan) -> list[Range]:
    """The texts that a plan removes or changes. What was kept of them goes in the plan's transaction.

    A range may hold positions without a message: that of a deleted segment is all of it, and the rows that are deleted
    after the last position that somebody sees go to the end of theirs."""
    ranges = [
        *((Address("message", at.segment, at.position), at.position) for at, _, _ in plan.replace_rows),
        *((Address("message", span.segment, span.first), span.last) for span in plan.delete_rows),
        *((Address("message", segment), SEGMENT_SIZE - 1) for segment in plan.delete_segments),
        *((Address("edit", number), 0) for number in plan.delete_edits),
        *((Address("overlay", number), 0) for number in (*plan.delete_overlays, *plan.cut_overlays)),
        *((Address("session", number), 0) for number in plan.delete_sessions),
    ]
    if "name" in plan.set or "summary" in plan.set:
        ranges.append((Address("session", plan.guards[0][0]), 0))
    return [(first, first._replace(position=min(last, SEGMENT_SIZE - 1))) for first, last in ranges]
