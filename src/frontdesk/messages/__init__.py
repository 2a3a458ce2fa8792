"""Messages: what they are (`Message`, its parts, ids, token counts) and the shapes of other people's (`formats`)."""

from frontdesk.messages.message import (
    SUMMARY_PREFIX,
    DataPart,
    FilePart,
    Message,
    Part,
    Reading,
    ReasoningPart,
    StoredMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    check_id,
    new_id,
)

__all__ = [
    "SUMMARY_PREFIX",
    "DataPart",
    "FilePart",
    "Message",
    "Part",
    "Reading",
    "ReasoningPart",
    "StoredMessage",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "check_id",
    "new_id",
]
