"""`command`: turns a coroutine into a command with `--store`, `--namespace` and `--json`, and opens the manager for
it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NamedTuple, ParamSpec
from urllib.parse import quote, unquote, urlsplit

import typer

from frontdesk.cli.output import Output

if TYPE_CHECKING:
    from frontdesk.keys import SessionKey
    from frontdesk.manager import SessionManager

P = ParamSpec("P")

StoreOption = Annotated[
    str,
    typer.Option("--store", "-s", envvar="FRONTDESK_STORE", metavar="URL", help="The store: a URL, or a SQLite file."),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", envvar="FRONTDESK_NAMESPACE", help="The namespace in the store.")
]
JSONOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
RefArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="The id of a session, or @agent:channel:peer[:thread].")
]

_SHARED = {
    "store": (StoreOption, inspect.Parameter.empty),
    "namespace": (NamespaceOption, "default"),
    "json": (JSONOption, False),
}


class Desk(NamedTuple):
    """What a command works with."""

    manager: SessionManager
    out: Output
    store: str
    """the URL"""


def command(
    work: Callable[Concatenate[Desk, P], Coroutine[Any, Any, None]],
    *,
    creates: bool = False,
    configure: Callable[..., SessionManager] | None = None,
) -> Callable[..., None]:
    """A command that opens the manager of `--store` and runs `work` with it. Unless it `creates` one, a SQLite file
    must exist: a typing error in its name must not make an empty store. `configure` sets up the manager, and is called
    with it and the options of the command."""

    @wraps(work)
    def run(*, store: str, namespace: str, json: bool, **values: Any) -> None:
        import asyncio

        async def with_manager() -> None:
            from frontdesk.manager import SessionManager

            url = store_url(store, creates=creates)
            manager = SessionManager(url, namespace=namespace)
            async with manager if configure is None else configure(manager, **values):
                await work(Desk(manager, Output(json=json), url), **values)  # type: ignore[call-arg]

        asyncio.run(with_manager())

    return with_options(run, work, _SHARED)


def with_options(
    run: Callable[..., None], work: Callable[..., Any], shared: dict[str, tuple[Any, Any]]
) -> Callable[..., None]:
    """Give `run` the parameters of `work`, without its first, and the shared ones, so that Typer sees them all."""
    own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in shared.items()
    ]
    parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def store_url(given: str, *, creates: bool = False) -> str:
    """The URL of a store that was given as a URL or as the path of a SQLite file."""
    url = given if "://" in given else f"sqlite:///{quote(given)}"
    path = file_of(url)
    if path is not None and not creates and not path.exists():
        from frontdesk.errors import StoreURLError

        raise StoreURLError(f"there is no file {str(path)!r}: nothing has been stored there yet, or the name is wrong")
    return url


def file_of(store: str) -> Path | None:
    """The file of a SQLite store."""
    parts = urlsplit(store)
    return Path(unquote(parts.path.removeprefix("/"))) if parts.scheme == "sqlite" else None


def check_kept(store: str) -> None:
    """Refuse to write to a store that ends with this command."""
    if urlsplit(store).scheme == "memory":
        raise typer.BadParameter(f"{store!r} is lost when this command ends: name a SQLite file, or a server")


def check_new_file(file: Path, *, replace: bool | None = None) -> None:
    """Refuse a file that exists, or has no folder. `replace` is the value of `--force`, if the command has it."""
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {str(file.parent)!r}: create it first")
    if file.exists() and not replace:
        hint = "choose another name" if replace is None else "pass --force to replace it"
        raise typer.BadParameter(f"{str(file)!r} exists: {hint}")


def parse_ref(text: str) -> str | SessionKey:
    """The session that an argument names: an id, or a key after an "@". "@@" begins an id that starts with "@"."""
    if not text.startswith("@"):
        return text
    if text.startswith("@@"):
        return text[1:]
    from frontdesk.keys import SessionKey

    return SessionKey.parse(text[1:])


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed. Without a terminal, `--yes` is needed."""
    import signal
    import sys

    from frontdesk.cli.escaping import visible

    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no terminal to confirm on, and nothing was changed: pass --yes", param_hint="--yes"
        )
    # Ctrl-C only cancels the next await of a coroutine, but no await ends this question.
    of_loop = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        typer.confirm(visible(question), abort=True, err=True)
    finally:
        signal.signal(signal.SIGINT, of_loop)
