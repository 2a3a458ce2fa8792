"""The entry point of the command, and how it shows errors. No user sees a traceback for an error that has a name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from frontdesk.extras import explain_missing

if TYPE_CHECKING:
    from frontdesk.errors import FrontdeskError

_FAILED = 1
_USAGE = 2


def main() -> None:
    """Run the command, and exit."""
    try:
        from frontdesk.cli.app import app

        # With --json, errors are shown here: Typer would print wrong usage as text.
        code = app(prog_name="frontdesk", standalone_mode=not _wants_json())
        sys.exit(code if isinstance(code, int) else 0)
    except ModuleNotFoundError as error:
        text = explain_missing("this command", error)
        if text is None:
            raise
        _fail(text, _USAGE, "configuration")
    except Exception as error:
        _report(error)


def _wants_json() -> bool:
    return "--json" in sys.argv


def _report(error: Exception) -> None:
    """Print a known error and exit with its code. Any other error is a bug, and is raised again."""
    import typer

    from frontdesk.errors import FrontdeskError

    if isinstance(error, FrontdeskError):
        from frontdesk.error_codes import error_code

        row = error_code(error)
        _fail(f"{error}{_hint(error)}", row.exit_code, row.code, error.details, row.outcome)
    if isinstance(error, typer.Abort):
        _fail("aborted: nothing was changed", _FAILED, "aborted")
    describe = getattr(error, "format_message", None)
    if describe is not None:  # an error of Typer
        _fail(describe(), _USAGE, "usage")
    if isinstance(error, OSError) and error.errno is not None:
        where = "" if error.filename is None else f"{error.filename}: "
        _fail(f"{where}{error.strerror}", _FAILED, "file", outcome="may have happened")
    raise error


def _hint(error: FrontdeskError) -> str:
    """What to write instead, if a key was given where an id is expected."""
    from frontdesk.errors import SessionNotFoundError

    if isinstance(error, SessionNotFoundError) and error.session_id.count(":") in (2, 3):
        return f" (a key begins with @: @{error.session_id})"
    return ""


def _fail(
    message: str,
    exit_code: int,
    code: str,
    details: Mapping[str, Any] = MappingProxyType({}),
    outcome: str = "refused",
) -> NoReturn:
    from frontdesk.cli.escaping import to_json, visible

    if _wants_json():
        document = {"error": code, "message": message, "details": dict(details), "outcome": outcome}
        sys.stderr.write(to_json(document) + "\n")
    else:
        sys.stderr.write(f"frontdesk: {visible(message)}\n")
    sys.exit(exit_code)
