"""What indexes contain in place of names: several of them together can exceed the size of an index row."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from frontdesk.store import Owner

_encode = msgspec.json.Encoder().encode
_decode_tags = msgspec.json.Decoder(list[str]).decode


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def tag_digests(tags: str) -> list[bytes]:
    """From the JSON of a session's tags."""
    return [] if tags == "[]" else [digest(tag) for tag in sorted(set(_decode_tags(tags)))]


def key_digest(agent: str | None, channel: str | None, peer: str | None, thread: str | None) -> bytes | None:
    """None for a session without a key."""
    return None if agent is None else sha256(_encode((agent, channel or "", peer or "", thread))).digest()


def owner_digest(owner: Owner) -> bytes:
    """Replaces the parts of an owner that is not a session."""
    return sha256(_encode(owner.parts)).digest()


def group_digest(model: str | None, agent: str | None, channel: str | None) -> bytes:
    """Replaces what usage is added up by, in addition to the day."""
    return sha256(_encode((model, agent, channel))).digest()
