"""How sessions and ids are written in URLs and headers. The server and its client share these rules."""

from __future__ import annotations

from urllib.parse import quote, unquote

from frontdesk.keys import SessionKey

NAMESPACE_HEADER = "Frontdesk-Namespace"
SESSION_HEADER = "Frontdesk-Session"
"""in answers, the id of the session that a key was resolved to, percent-encoded; a request with it continues there"""
KEY_HEADER = "Frontdesk-Key"
"""in answers: the key that the session is stored under, percent-encoded"""
TURN_HEADER = "Frontdesk-Turn"
"""the number of the turn that the writes of a request belong to"""
STORED_MESSAGES = "application/vnd.frontdesk.stored+json"
"""as `Accept`: messages in answers are as stores keep them, so that a client has the same `Message` as the server"""
_MARKS = ("~", "@")


def write_id(id: str) -> str:
    """An id as a part of a path. A `~` protects one that a path could not contain, or that would look like a key."""
    return quote(f"~{id}" if id.startswith(_MARKS) or not id.strip(".") else id, safe="")


def write_ref(ref: str | SessionKey) -> str:
    """A session as a part of a path: its id, or `@` and its key."""
    return quote(f"@{ref}", safe="") if isinstance(ref, SessionKey) else write_id(ref)


def write_query_ref(ref: str | SessionKey) -> str:
    """A session as the value of a query, before it is escaped as every value is."""
    return f"@{ref}" if isinstance(ref, SessionKey) else f"~{ref}" if ref.startswith(_MARKS) else ref


def read_id(part: str) -> str:
    """The id that `write_id` wrote, in a path whose parts were decoded except for `/` and `%`."""
    return _plain(part).removeprefix("~")


def read_ref(part: str) -> str | SessionKey:
    """The session that `write_ref` wrote, in such a path. Raises `InvalidKeyError`."""
    return read_query_ref(_plain(part))


def read_query_ref(text: str) -> str | SessionKey:
    """The session that `write_query_ref` wrote. Raises `InvalidKeyError`."""
    return SessionKey.parse(text[1:]) if text.startswith("@") else text.removeprefix("~")


def write_header(text: str) -> str:
    """Any text as the value of a header."""
    return quote(text, safe="")


def read_header(value: str) -> str:
    return unquote(value)


def _plain(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
