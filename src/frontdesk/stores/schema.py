"""What to do with the schema of a database: the rules that the SQL stores share.

A store's folder holds `schema.sql`, which is version 1, and from the first release on `migrations/002_....sql` and so
on, which are never changed after their release. A database records its version and a hash of every statement that led
to it. A hash that differs means that the database was created by code between two releases, and no migration leads
from there.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from frontdesk.errors import SchemaVersionError

_COMMENT = re.compile(r"--[^\n]*")


class FoundSchema(NamedTuple):
    """What a database records of its schema. It has no hash if it is older than the recording of hashes."""

    version: int
    hash: str | None


class Schema:
    """The SQL that creates a schema: the first version, and the migrations to each later one."""

    def __init__(self, first: str, *migrations: str) -> None:
        self.texts = (first, *migrations)

    @property
    def version(self) -> int:
        return len(self.texts)

    def recorded(self, version: int | None = None) -> FoundSchema:
        """What a database of a version, the newest by default, records."""
        version = self.version if version is None else version
        return FoundSchema(version, _hash(self.texts[:version]))

    def missing(self, found: FoundSchema | None, database: str, **details: Any) -> tuple[str, ...]:
        """The SQL that a database still needs, in order: all of it for an empty one (`found` is None).

        Raises `SchemaVersionError` for a schema that is newer than this code or that no release has had.
        """
        if found is None:
            return self.texts
        details = {**details, "version": found.version, "known": self.version}
        if found.hash is not None and found.version > self.version:
            raise SchemaVersionError(
                f"{database} has schema version {found.version}, this Frontdesk knows up to {self.version}:"
                " upgrade the package",
                **details,
            )
        if found != self.recorded(found.version):
            raise SchemaVersionError(
                f"{database} was created by an unreleased version of Frontdesk: open it with that version, or start"
                " with a new database",
                **details,
            )
        return self.texts[found.version :]


@cache
def load(package: str) -> Schema:
    """The schema that a store's package holds."""
    folder = files(package)
    migrations = folder.joinpath("migrations")
    names = sorted(entry.name for entry in migrations.iterdir()) if migrations.is_dir() else []
    texts = [migrations.joinpath(name).read_text("utf-8") for name in names if name.endswith(".sql")]
    return Schema(folder.joinpath("schema.sql").read_text("utf-8"), *texts)


def _hash(texts: tuple[str, ...]) -> str:
    """Of the statements alone: a comment or a line break may still be corrected after a release."""
    statements = "\0".join(" ".join(_COMMENT.sub("", text).split()) for text in texts)
    return hashlib.sha256(statements.encode()).hexdigest()
