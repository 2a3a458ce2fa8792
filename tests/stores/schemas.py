"""Schemas in a PostgreSQL database that many tests share: a new schema takes half the time of a new database."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg


@dataclass(frozen=True)
class PostgresSchema:
    """A schema for one test, in the database with this URL. It does not exist until a store makes it."""

    database: str
    name: str

    async def read_all(self) -> str:
        """Every row of every table, as one text."""
        connection = await asyncpg.connect(self.database)
        try:
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", self.name)
            return str([await connection.fetch(f'SELECT t::text FROM {self.name}."{name}" t') for (name,) in tables])
        finally:
            await connection.close()
