"""The entry point of the command, and how it shows errors. No user sees a traceback for an error that has a name."""

from __future__ import annotations

import sys

_FAILED = 1
_USAGE = 2
_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "mcp": "mcp",
    "fastapi": "server",
    "uvicorn": "server",
    "starlette": "server",
    "prometheus_client": "server",
    "opentelemetry": "telemetry",
    "redis": "redis",
    "asyncpg": "postgres",
    "openai": "openai",
    "anthropic": "anthropic",
}
"""the extra that installs a package"""


def main() -> None:
    """Run the command, and exit."""
    try:
        from frontdesk.cli.app import app

        app(prog_name="frontdesk")
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        _fail(f"this needs the package {error.name}: pip install 'frontdesk[{extra}]'", _USAGE)
    except Exception as error:
        _report(error)


def _report(error: Exception) -> None:
    """Print a known error and exit with its code. Any other error is a bug, and is raised again."""
    from frontdesk.errors import FrontdeskError

    if isinstance(error, FrontdeskError):
        from frontdesk.error_codes import error_code

        row = error_code(error)
        if "--json" in sys.argv:
            from frontdesk.cli.escaping import to_json

            values = {"error": row.code, "message": str(error), "details": error.details, "outcome": row.outcome}
            sys.stderr.write(to_json(values) + "\n")
            sys.exit(row.exit_code)
        _fail(str(error), row.exit_code)
    if isinstance(error, OSError) and error.filename is not None:
        _fail(f"{error.filename}: {error.strerror}", _FAILED)
    raise error


def _fail(message: str, code: int) -> None:
    from frontdesk.cli.escaping import visible

    sys.stderr.write(f"frontdesk: {visible(message)}\n")
    sys.exit(code)
