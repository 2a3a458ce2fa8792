"""The chainable set-up, shared by `SessionManager` and `Session.create`: in any order, before first use."""

from __future__ import annotations

from typing import Any, Self

from frontdesk.context.blocks import Declaration
from frontdesk.context.settings import ContextSettings, PromptStore, Renderer
from frontdesk.errors import ConfigurationError
from frontdesk.scope import Scope
from frontdesk.tokens import TokenCounter


class Configurable:
    """Set-up calls; each gives the object back. After first use they raise `ConfigurationError`."""

    _scope: Scope
    _configurable = True

    def with_token_counter(self, counter: TokenCounter) -> Self:
        """Count tokens with `counter(text) -> int` instead of the built-in estimate."""
        if not callable(counter):
            raise ConfigurationError(f"a token counter is a callable from text to int, not {type(counter).__name__}")
        self._unused().counter = counter
        return self

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        shared: bool = False,
        provider: Any = None,
    ) -> Self:
        """Declare a context block of every session.

        Without a provider it lives in the store, per session or (`shared`) per namespace. `provider` is an object with
        `get` (and `set`, `load` or `search`), or a factory `(session_id) -> provider`."""
        declaration = Declaration(label, description, default_content, max_tokens, readonly, shared, provider)
        declarations = self._unused().settings(ContextSettings).declarations
        if any(declared.label == label for declared in declarations):
            raise ConfigurationError(f"there is a context block {label!r} already")
        declarations.append(declaration)
        return self

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Keep frozen prompts, so that every worker and every restart uses the same text: in the store of the sessions,
        or in an object with `get(session_id)` and `set(session_id, text)`."""
        settings = self._unused().settings(ContextSettings)
        settings.caches_prompt = True
        settings.prompt_store = store
        return self

    def with_prompt_renderer(self, render: Renderer) -> Self:
        """Render blocks with `render(blocks) -> str` instead of `frontdesk.context.render_prompt`."""
        if not callable(render):
            raise ConfigurationError(f"a renderer is a callable from blocks to text, not {type(render).__name__}")
        self._unused().settings(ContextSettings).renderer = render
        return self

    def _unused(self) -> Scope:
        if not self._configurable:
            raise ConfigurationError("a handle has no settings of its own: set them on the manager that made it")
        if self._scope.used:
            raise ConfigurationError("settings are final after first use: call every with_...() before it")
        return self._scope
