"""Reading stored values: those of this version of the type, and those that an older deploy wrote."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from frontdesk.errors import ConfigurationError, StateMismatchError
from frontdesk.states.codec import StateCodec
from frontdesk.store import StateKey, StateRow

T = TypeVar("T")
Migrate = Callable[[Any, int], T | Awaitable[T]]


class StateReader(Generic[T]):
    """Decodes stored values. `version` is the version of the type, which is stored with each value. A value of an older
    version, or one that does not fit the type, is passed to `migrate`.

    Raises `ConfigurationError` for a version that is not a positive whole number."""

    def __init__(self, codec: StateCodec[T], version: int, migrate: Migrate[T] | None) -> None:
        if type(version) is not int or version < 1:
            raise ConfigurationError(f"version must be a positive whole number, not {version!r}")
        if migrate is not None and not callable(migrate):
            raise ConfigurationError(
                f"migrate must be a callable from a stored value and its version to a state, not {migrate!r}"
            )
        self._codec = codec
        self._version = version
        self._migrate = migrate

    async def read(self, row: StateRow, key: StateKey) -> T:
        """The value of a row. Raises `StateMismatchError`, `InvalidStateError` for what `migrate` returned, and the
        errors of `migrate`."""
        if row.type_version > self._version:
            raise StateMismatchError(
                key.id,
                key.name,
                self._codec.name,
                f"it was written as version {row.type_version} of the type, and this process knows up to"
                f" {self._version}",
            )
        if self._migrate is None or row.type_version == self._version:
            try:
                return self._codec.decode(row.value, key.id, key.name)
            except StateMismatchError:
                if self._migrate is None:
                    raise
        migrated: Any = self._migrate(self._codec.parse(row.value, key.id, key.name), row.type_version)
        if inspect.isawaitable(migrated):
            migrated = await migrated
        if not self._codec.is_instance(migrated) and isinstance(migrated, dict | list):
            return self._codec.decode(_to_json(migrated, key, self._codec.name), key.id, key.name)
        return self._codec.encode(migrated, key.id)[1]


def _to_json(value: Any, key: StateKey, kind: str) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise StateMismatchError(key.id, key.name, kind, "what `migrate` returned is not JSON") from None
