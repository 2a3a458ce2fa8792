"""Compaction: overlays that stand in for ranges of a path while the range itself stays, and memory that outlives them.

For those with their own loop, its parts are plain functions: `plan` chooses what to compact in a view."""

from frontdesk.compaction.planner import Range, plan

__all__ = ["Range", "plan"]
