"""What the models of all providers have in common: settings, one client per event loop, and typed errors."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from frontdesk.errors import ConfigurationError, FrontdeskError, ModelError
from frontdesk.models.completion import Completion
from frontdesk.models.failures import to_model_error
from frontdesk.models.windows import context_window


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """How a model is called. Raises `ConfigurationError` for invalid values."""

    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    max_tokens: int | None = None
    timeout: float = 60.0
    temperature: float | None = None
    max_retries: int = 2
    context_window: int | None = None
    client_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigurationError("a model needs a name")
        for what, least in (("max_tokens", 1), ("context_window", 1), ("max_retries", 0)):
            value = getattr(self, what)
            if value is not None and value < least:
                raise ConfigurationError(f"{what} must be at least {least}, not {value!r}")
        if not self.timeout > 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")


class ChatModel(ABC):
    """A model with an HTTP API: `await model(prompt)` returns a `Completion`. Safe to share between tasks and loops."""

    package: ClassVar[str]

    def __init__(self, settings: ChatSettings) -> None:
        if importlib.util.find_spec(self.package) is None:
            raise ConfigurationError(
                f"the package {self.package!r} is not installed: pip install 'frontdesk[{self.package}]'"
            )
        self.settings = settings
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The name of the model as it is sent to the server."""
        return self.settings.model

    @property
    def context_window(self) -> int | None:
        """The configured value, or else the known context window of the model; None if unknown."""
        return self.settings.context_window or context_window(self.settings.model)

    async def __call__(self, prompt: str, *, system: str | None = None) -> Completion:
        """Send the prompt as one user message and wait for the whole answer.

        Raises `ModelError` or a subclass, and `ConfigurationError` without a key. Never returns an empty or incomplete
        answer."""
        client = await self.client()
        try:
            completion = await self._complete(client, prompt, system)
        except FrontdeskError:
            raise
        except Exception as error:
            raise to_model_error(error, self.name) from error
        if not completion.strip():
            advice = "raise max_tokens, its reasoning used them all" if completion.truncated else "try again"
            raise ModelError(f"model {self.name!r} returned an empty answer: {advice}", model=self.name)
        return completion

    async def close(self) -> None:
        """Close the connections of the running event loop. A later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def client(self) -> Any:
        """The provider's client for the running event loop. Raises `ConfigurationError`."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # Importing a provider's package takes up to a second, which must not block the loop.
            module = await asyncio.to_thread(importlib.import_module, self.package)
            client = self._clients.get(loop)
            if client is None:
                client = self._clients[loop] = self._connect(module)
        return client

    def _interrupted(self) -> ModelError:
        return ModelError(f"the answer of model {self.name!r} ended early: try again", model=self.name)

    def _missing_key(self) -> ConfigurationError:
        variable = f"{self.package.upper()}_API_KEY"
        return ConfigurationError(f"no key for model {self.name!r}: pass api_key or set {variable}", model=self.name)

    @abstractmethod
    def _connect(self, module: ModuleType) -> Any:
        """Make the provider's client. Raises `ConfigurationError` if the settings are not sufficient."""

    @abstractmethod
    async def _complete(self, client: Any, prompt: str, system: str | None) -> Completion:
        """Call the model. May raise anything; `to_model_error` turns it into a `ModelError`."""
