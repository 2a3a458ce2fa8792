"""Models with the OpenAI chat completions API: those of OpenAI, and of every server with the same API."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, ClassVar

from frontdesk.errors import ModelRefusedError
from frontdesk.models.chat import ChatModel, ChatSettings
from frontdesk.models.completion import Completion, ModelUsage


def openai(
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
) -> OpenAIModel:
    """A model of OpenAI, or of any server with the same API at `base_url`, through the official package.

    The answer is streamed: `timeout` is the longest pause between two chunks. `max_retries` is the number of retries by
    the package after 429, 5xx and failed connections; `client_options` are passed to its client. Without `api_key`, the
    key is `OPENAI_API_KEY`; a server at `base_url` may not need one. Raises `ConfigurationError` if the package is not
    installed."""
    return OpenAIModel(
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


class OpenAIModel(ChatModel):
    """A `ChatModel` that uses the `openai` package."""

    package: ClassVar[str] = "openai"

    def __init__(self, settings: ChatSettings) -> None:
        super().__init__(settings)
        self._usage_is_refused = False

    def _connect(self, module: ModuleType) -> Any:
        settings = self.settings
        key = settings.api_key
        if key is None and settings.base_url is not None and not os.environ.get("OPENAI_API_KEY"):
            # The package requires a key, but most local servers do not.
            key = "none"
        try:
            return module.AsyncOpenAI(
                api_key=key,
                base_url=settings.base_url,
                timeout=settings.timeout,
                max_retries=settings.max_retries,
                **settings.client_options,
            )
        except module.OpenAIError as error:
            raise self._missing_key() from error

    async def _complete(self, client: Any, prompt: str, system: str | None) -> Completion:
        request = self._request(client, prompt, system)
        try:
            stream = await client.chat.completions.create(**request)
        except Exception as error:
            # Servers that do not know this option name it in their error, and work without it.
            if "stream_options" not in request or "stream_options" not in str(error):
                raise
            self._usage_is_refused = True
            stream = await client.chat.completions.create(**self._request(client, prompt, system))
        async with stream:
            return await self._read(stream)

    def _request(self, client: Any, prompt: str, system: str | None) -> dict[str, Any]:
        settings = self.settings
        instructions = [] if system is None else [{"role": "system", "content": system}]
        request: dict[str, Any] = {
            "model": settings.model,
            "messages": [*instructions, {"role": "user", "content": prompt}],
            "stream": True,
        }
        if not self._usage_is_refused:
            request["stream_options"] = {"include_usage": True}
        if settings.max_tokens is not None:
            # OpenAI's reasoning models accept only the new name, other servers often only the old one.
            at_openai = client.base_url.host.endswith("api.openai.com")
            request["max_completion_tokens" if at_openai else "max_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            request["temperature"] = settings.temperature
        return request

    async def _read(self, stream: Any) -> Completion:
        model = self.name
        pieces: list[str] = []
        usage: ModelUsage | None = None
        end: str | None = None
        refused = False
        async for chunk in stream:
            model = chunk.model or model
            usage = _usage(chunk.usage) or usage
            for choice in chunk.choices or ():
                if choice.delta is not None:
                    pieces.append(choice.delta.content or "")
                    refused = refused or bool(choice.delta.refusal)
                end = choice.finish_reason or end
        if end is None:
            raise self._interrupted()
        if refused or end == "content_filter":
            raise ModelRefusedError(f"model {self.name!r} refused to answer ({end})", model=self.name)
        return Completion("".join(pieces), model=model, usage=usage, truncated=end == "length")


def _usage(reported: Any) -> ModelUsage | None:
    if reported is None:
        return None
    prompt, answer = reported.prompt_tokens_details, reported.completion_tokens_details
    return ModelUsage(
        input_tokens=reported.prompt_tokens or 0,
        output_tokens=reported.completion_tokens or 0,
        cache_read_tokens=getattr(prompt, "cached_tokens", None) or 0,
        cache_write_tokens=getattr(prompt, "cache_write_tokens", None) or 0,
        reasoning_tokens=getattr(answer, "reasoning_tokens", None) or 0,
    )
