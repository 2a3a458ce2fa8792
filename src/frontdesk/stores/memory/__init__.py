"""The store for tests, notebooks and throw-away agents: everything in this process, gone with it."""

from frontdesk.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
