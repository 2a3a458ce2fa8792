"""Compaction: which messages an overlay replaces in the view, and the summaries and facts that models make of them.

`plan` chooses what to compact in a view. An application that compacts on its own can call it directly."""

from frontdesk.compaction.planner import Range, plan

__all__ = ["Range", "plan"]
