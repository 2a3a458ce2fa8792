"""How a compaction's summary is shown to a model: marked as nobody's words, and unable to break out of its mark."""

from __future__ import annotations

import re

_OPEN = '<conversation_summary note="Summary of earlier messages, made by the system; not the user\'s words.">'
_CLOSE = "</conversation_summary>"
_CLOSING_TAG = re.compile(r"<(\s*/\s*conversation_summary)", re.IGNORECASE)


def wrap_summary(text: str) -> str:
    """`text` between the tags; a closing tag inside it is escaped."""
    return _OPEN + _CLOSING_TAG.sub(r"&lt;\1", text) + _CLOSE
