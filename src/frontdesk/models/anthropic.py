"""Models with the Anthropic messages API."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from frontdesk.errors import ModelRefusedError
from frontdesk.models.chat import ChatModel, ChatSettings
from frontdesk.models.completion import Completion, ModelUsage

_MAX_TOKENS = 8_192
_TRUNCATED = frozenset({"max_tokens", "model_context_window_exceeded"})


def anthropic(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    max_tokens: int | None = None,
    timeout: float = 60.0,
    temperature: float | None = None,
    max_retries: int = 2,
    context_window: int | None = None,
    **client_options: Any,
) -> AnthropicModel:
    """A model of Anthropic, or of a server with the same API at `base_url`, through the official package.

    The answer is streamed: `timeout` is the longest pause between two chunks. The API requires a limit for the answer:
    8,192 tokens without `max_tokens`. `max_retries` is the number of retries by the package after 429, 5xx and failed
    connections; `client_options` are passed to its client. Without `api_key`, the key is `ANTHROPIC_API_KEY`. Raises
    `ConfigurationError` if the package is not installed."""
    return AnthropicModel(
        ChatSettings(
            model=model,
            base_url=base_url,
            api_key=api_key,
            max_tokens=max_tokens,
            timeout=timeout,
            temperature=temperature,
            max_retries=max_retries,
            context_window=context_window,
            client_options=client_options,
        )
    )


class AnthropicModel(ChatModel):
    """A `ChatModel` that uses the `anthropic` package."""

    package: ClassVar[str] = "anthropic"

    def _connect(self, module: ModuleType) -> Any:
        settings = self.settings
        return module.AsyncAnthropic(
            api_key=settings.api_key,
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=settings.max_retries,
            **settings.client_options,
        )

    async def _complete(self, client: Any, prompt: str, system: str | None) -> Completion:
        settings = self.settings
        request: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": settings.max_tokens or _MAX_TOKENS,
            "stream": True,
        }
        if system is not None:
            request["system"] = system
        if settings.temperature is not None:
            # The package no longer has the argument, but the API still does.
            request["extra_body"] = {"temperature": settings.temperature}
        try:
            stream = await client.messages.create(**request)
        except TypeError as error:
            # The package looks for a key in several places, and raises only when it needs one.
            raise self._missing_key() from error
        async with stream:
            return await self._read(stream)

    async def _read(self, stream: Any) -> Completion:
        model = self.name
        pieces: list[str] = []
        counts: dict[str, int] = {}
        end: str | None = None
        async for event in stream:
            if event.type == "message_start":
                model = event.message.model or model
                counts |= _counts(event.message.usage)
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                pieces.append(event.delta.text)
            elif event.type == "message_delta":
                end = event.delta.stop_reason or end
                counts |= _counts(event.usage)
        if end is None:
            raise self._interrupted()
        if end == "refusal":
            raise ModelRefusedError(f"model {self.name!r} refused to answer ({end})", model=self.name)
        return Completion("".join(pieces), model=model, usage=_usage(counts), truncated=end in _TRUNCATED)


def _counts(usage: Any) -> dict[str, int]:
    """The counts that an event contains. Later events repeat or correct those of earlier ones."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    found = {name: getattr(usage, name, None) for name in names}
    found["thinking_tokens"] = getattr(getattr(usage, "output_tokens_details", None), "thinking_tokens", None)
    return {name: count for name, count in found.items() if count is not None}


def _usage(counts: dict[str, int]) -> ModelUsage | None:
    if not counts:
        return None
    read, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
    return ModelUsage(
        input_tokens=counts.get("input_tokens", 0) + read + written,
        output_tokens=counts.get("output_tokens", 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=counts.get("thinking_tokens", 0),
    )
