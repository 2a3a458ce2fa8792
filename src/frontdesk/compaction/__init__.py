"""Compaction: which messages an overlay replaces in the view, and the summaries and facts that models make of them.

An application with its own loop can call the planner by itself: `plan` chooses what to compact in a view."""

from frontdesk.compaction.planner import Range, plan

__all__ = ["Range", "plan"]
