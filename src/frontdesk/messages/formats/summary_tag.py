"""How a model sees the summary of a compaction: inside tags that the summary cannot close, marked as not the user's
words."""

from __future__ import annotations

import re

from frontdesk.messages.formats.format import Source

_OPEN = '<conversation_summary id="{}" note="Summary of earlier messages, made by the system; not the user\'s words.">'
_CLOSE = "</conversation_summary>"
_CLOSING_TAG = re.compile(r"<(\s*/\s*conversation_summary)", re.IGNORECASE)


def wrap_summary(message: Source) -> str:
    """The text of a summary between tags that carry its id (for `expand_summary`); a closing tag inside is escaped."""
    return _OPEN.format(message.id) + _CLOSING_TAG.sub(r"&lt;\1", message.text) + _CLOSE
