"""Frontdesk: the session layer for AI agents.

The names come from `frontdesk.public`, which is loaded when one of them is first used: the command line starts faster
without it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frontdesk.public import *  # noqa: F403
    from frontdesk.public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        if name != "__all__":
            if name.startswith("_"):  # asked for by the import system, and by inspections
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            # A module first: our own modules import each other from here, while `public` is being loaded.
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        public = import_module(f"{__name__}.public")
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(public, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
