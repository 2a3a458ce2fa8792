"""The store for many workers: PostgreSQL through asyncpg, one round trip and one commit for many appends at once."""

from frontdesk.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
