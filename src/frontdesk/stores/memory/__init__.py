"""The memory store, for tests, notebooks and throw-away agents: everything is gone when the process ends."""

from frontdesk.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
