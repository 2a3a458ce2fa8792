"""Recognises errors that mean that a prompt was too long, for all providers and client libraries.

It goes by attributes and texts, and imports no provider's package, so it also works on errors of other clients.
"""

import re
from collections.abc import Iterator
from typing import Any

from frontdesk.errors import ModelError, ModelOverflowError

_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, Groq, OpenRouter
        "context_window_exceeded",
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Anthropic, Z.ai
        "request_too_large",  # Anthropic, by bytes
    }
)
_WORDINGS = re.compile(
    "|".join(
        (
            r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral, OpenRouter, SGLang, Ollama
            r"exceeds? (?:the )?context (?:window of this model|limit)",  # OpenAI Responses, Anthropic
            r"input tokens exceed the configured limit",  # OpenAI, Azure
            r"reduce the length of (?:the )?(?:messages|input|prompt|either one)",  # OpenAI, Groq, OpenRouter
            r"prompt is too long",  # Anthropic
            r"input is too long for requested model",  # Amazon Bedrock
            r"input token count.{0,40} exceeds the maximum number of tokens",  # Google
            r"input token count is .{1,20} but (?:the )?model only supports",  # Google Vertex AI
            r"exceeds the available context size",  # llama.cpp
            r"context size has been exceeded",  # llama.cpp, during generation
            r"requested tokens(?: \(\d+\))? exceed context window",  # llama-cpp-python
            r"longer than the maximum model length",  # vLLM
            r"too long to fit into the model",  # vLLM
            r"longer than the model's context length",  # SGLang, Together
            r"exceeds the (?:maximum )?(?:context length|allowed input length)",  # Ollama, vLLM behind a gateway
            r"exceeded (?:max )?context length",  # Ollama
            r"loaded with (?:a )?context length of only",  # LM Studio
            r"tokens to keep from the initial prompt is greater than the context length",  # LM Studio
            r"`?inputs`? tokens \+ `?max_new_tokens`? must be <=",  # text-generation-inference
            r"`?inputs`? must have less than \d+ tokens",  # text-generation-inference
            r"tokens in (?:the|this) prompt cannot exceed",  # Cohere
            r"maximum prompt length is \d+",  # xAI
            r"prompt token count of \d+ exceeds the limit",  # GitHub Copilot
            r"exceeded model token limit",  # Moonshot
            r"context window exceeds limit",  # MiniMax
            r"range of input length should be",  # DashScope
            r"total length of all messages is too long",  # Perplexity
            r"context_?window_?exceeded",  # LiteLLM
            *sorted(_CODES),
        )
    ),
    re.IGNORECASE,
)
_NUMBER = r"([\d][\d,_]*)"
_LIMITS = re.compile(
    "|".join(
        (
            rf"maximum context length (?:is|of) (?:only )?{_NUMBER}",  # OpenAI, vLLM, DeepSeek, OpenRouter
            rf"maximum (?:model|prompt) length (?:is|of) {_NUMBER}",  # vLLM, xAI
            rf"> {_NUMBER}(?: maximum)?",  # Anthropic
            rf"available context size \(?{_NUMBER}",  # llama.cpp
            rf"n_ctx[\"']?: ?{_NUMBER}",  # llama.cpp, LM Studio
            rf"with {_NUMBER} maximum context length",  # Mistral
            rf"exceed context window of {_NUMBER}",  # llama-cpp-python
            rf"context length (?:of only |of |is )?{_NUMBER}",  # LM Studio, vLLM
            rf"context length \({_NUMBER}",  # SGLang, Together
            rf"limit (?:of|is|:) ?{_NUMBER}",  # OpenAI Responses, Copilot
            rf"token limit: ?{_NUMBER}",  # Moonshot
            rf"number of tokens allowed \(?{_NUMBER}",  # Google
            rf"must be <= {_NUMBER}",  # text-generation-inference
            rf"must have less than {_NUMBER} tokens",  # text-generation-inference
            rf"prompt cannot exceed {_NUMBER}",  # Cohere
            rf"input length should be \[\d+, ?{_NUMBER}",  # DashScope
        )
    ),
    re.IGNORECASE,
)
# These errors also mention tokens and limits, but a shorter prompt does not help.
_RATE = re.compile(
    r"rate.?limit|per[ -](?:min|minute|day|hour)\b|\b[tr]pm\b|quota|throttl|too many requests|resource_?exhausted",
    re.IGNORECASE,
)
_TOO_MANY_REQUESTS = 429
_CONTENT_TOO_LARGE = 413


def is_context_overflow(error: BaseException) -> bool:
    """Whether a model call failed because the prompt does not fit into the model's context window.

    Checks the types, statuses, codes and texts of the error and of its causes. A rate limit never counts, even if its
    text mentions tokens."""
    for link in _chain(error):
        if isinstance(link, ModelOverflowError):
            return True
        if isinstance(link, ModelError):
            continue
        text = f"{type(link).__name__} {link} {getattr(link, 'body', None) or ''}"
        status = _status(link)
        if status == _TOO_MANY_REQUESTS or _RATE.search(text):
            return False
        if status == _CONTENT_TOO_LARGE or _codes(link) & _CODES or _WORDINGS.search(text):
            return True
    return False


def context_limit(error: BaseException) -> int | None:
    """How many tokens the model takes, if an error of a prompt that was too long says so."""
    for link in _chain(error):
        match = _LIMITS.search(f"{link} {getattr(link, 'body', None) or ''}")
        if match is not None:
            return int(next(filter(None, match.groups())).replace(",", "").replace("_", ""))
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _status(error: BaseException) -> int | None:
    response: Any = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "code"), (error, "status"), (response, "status_code")):
        value = getattr(holder, name, None)
        if isinstance(value, int):
            return value
    return None


def _codes(error: BaseException) -> set[str]:
    values = (getattr(error, name, None) for name in ("code", "type"))
    return {value for value in values if isinstance(value, str)}
