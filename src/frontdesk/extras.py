"""Which extra installs a package that only a part of Frontdesk needs. The command and the parts use the same words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "httpx2": "client",
    "mcp": "mcp",
    "mcp_types": "mcp",
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


def explain_missing(what: str, error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """What to install, if the missing package belongs to an extra; `extra` is the one that has everything that is
    needed."""
    package = (error.name or "").split(".")[0]
    extra = None if package == "frontdesk" else extra or _EXTRAS.get(package)
    return extra and f"{what} needs the package {package}: pip install 'frontdesk[{extra}]'"


@contextmanager
def needs_extra(what: str, extra: str | None = None) -> Iterator[None]:
    """Import what needs an extra: the given one, or that of the package. If a package is missing,
    `ModuleNotFoundError` says which extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = explain_missing(what, error, extra)
        if text is None:
            raise
        raise ModuleNotFoundError(text, name=error.name) from None
