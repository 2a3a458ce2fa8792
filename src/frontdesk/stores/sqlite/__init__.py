"""The store in one SQLite file: durable, for one machine, shared by any number of its processes."""

from __future__ import annotations

from frontdesk.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
