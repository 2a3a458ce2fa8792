"""Compaction: overlays that stand in for ranges of a path while the range itself stays."""
