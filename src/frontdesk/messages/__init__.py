"""Messages: `Message` with its parts, ids and token counts, and the formats in which messages are given and
returned."""

from frontdesk.messages.ids import SUMMARY_PREFIX, check_id, new_id
from frontdesk.messages.ingestion import ingest, rewrite
from frontdesk.messages.message import Message
from frontdesk.messages.new_message import NewMessage
from frontdesk.messages.parts import (
    DataPart,
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from frontdesk.messages.stored import StoredMessage

__all__ = [
    "SUMMARY_PREFIX",
    "DataPart",
    "FilePart",
    "Message",
    "NewMessage",
    "Part",
    "ReasoningPart",
    "StoredMessage",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "check_id",
    "ingest",
    "new_id",
    "rewrite",
]
