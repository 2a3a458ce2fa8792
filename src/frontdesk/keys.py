"""`SessionKey`: the stable address `agent:channel:peer[:thread]` of a conversation, escaped so that it is unique."""

from __future__ import annotations

from dataclasses import dataclass

from frontdesk.errors import InvalidKeyError
from frontdesk.record import Record

_MAX_PART = 512


@dataclass(frozen=True, slots=True, order=True)
class SessionKey(Record):
    """The address of a conversation. Parts may be any text; `str(key)` and `SessionKey.parse` are exact inverses.

    Raises `InvalidKeyError` for an empty or over-long part and for characters that no store can keep (NUL, lone
    surrogates)."""

    agent: str
    channel: str
    peer: str
    thread: str | None = None

    def __post_init__(self) -> None:
        for name in ("agent", "channel", "peer", "thread"):
            _check_part(name, getattr(self, name))

    def __str__(self) -> str:
        parts = (self.agent, self.channel, self.peer) if self.thread is None else self.parts
        return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts if part is not None)

    @property
    def parts(self) -> tuple[str, str, str, str | None]:
        return self.agent, self.channel, self.peer, self.thread

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        """The key that `str()` would write as `text`. Raises `InvalidKeyError` for any other text."""
        if not isinstance(text, str):
            raise InvalidKeyError(f"a key is parsed from a text, not from {type(text).__name__}")
        parts = text.split(":")
        if len(parts) not in (3, 4):
            raise InvalidKeyError(f"{text!r} is not a key: write agent:channel:peer or agent:channel:peer:thread")
        key = cls(*(part.replace("%3A", ":").replace("%25", "%") for part in parts))
        if str(key) != text:
            raise InvalidKeyError(
                f"{text!r} is not a key: '%' is written %25 inside a part, and nothing else is escaped"
            )
        return key


def _check_part(name: str, value: object) -> None:
    if value is None and name == "thread":
        return
    if not isinstance(value, str):
        raise InvalidKeyError(f"the {name} of a key must be a string, not {type(value).__name__}")
    if not 0 < len(value) <= _MAX_PART:
        raise InvalidKeyError(f"the {name} of a key has {len(value)} characters: 1 to {_MAX_PART} are allowed")
    if "\0" in value or (not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)):
        raise InvalidKeyError(f"the {name} of a key contains NUL or a lone surrogate, which no store can keep")
