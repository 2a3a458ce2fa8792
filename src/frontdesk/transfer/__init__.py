"""Moves whole namespaces: an export as JSON lines, its import, and a copy between two stores that follows changes.

It is below the manager, because it reads and writes rows as they are."""
