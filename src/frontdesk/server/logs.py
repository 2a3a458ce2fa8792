"""Log records as JSON, one object per line, without anything that was said."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from traceback import format_tb
from typing import Any

from frontdesk.server.wire import encode


class JSONFormatter(logging.Formatter):
    """Writes the time, the level, the logger, the message, and the fields of a request. For an exception, it writes its
    type and where it was raised: its text may contain what was said."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "frontdesk", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            document["exception"] = record.exc_info[0].__name__
            document["traceback"] = "".join(format_tb(record.exc_info[2]))
        return encode(document).decode()


def log_as_json(level: int = logging.INFO) -> None:
    """Log to standard error as JSON: requests and other records of Frontdesk from `level` on, and the warnings of
    others."""
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("frontdesk").setLevel(level)
