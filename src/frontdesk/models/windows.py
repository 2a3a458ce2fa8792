"""Context windows of well-known models: the default for budgets, overridden by an explicit value.

A family has the smallest window of its common models. A local server may have loaded a model with a smaller one.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache

from frontdesk.messages.tokens import DEFAULT_MAX_TOKENS
from frontdesk.store import SessionRow

_log = logging.getLogger("frontdesk.models")

_WINDOWS = {
    # OpenAI
    "chatgpt-4o": 128_000,
    "codex-mini": 200_000,
    "gpt-3.5-turbo": 16_385,
    "gpt-3.5-turbo-instruct": 4_096,
    "gpt-4": 8_192,
    "gpt-4-0125": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4-vision": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4.5": 128_000,
    "gpt-4o": 128_000,
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "gpt-5.1-chat": 128_000,
    "gpt-5.2-chat": 128_000,
    "gpt-5.3-chat": 128_000,
    "gpt-5.4": 1_050_000,
    "gpt-5.4-mini": 400_000,
    "gpt-5.4-nano": 400_000,
    "gpt-5.5": 1_050_000,
    "gpt-5.6": 1_050_000,
    "gpt-6": 1_050_000,
    "gpt-oss": 131_072,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    # Anthropic
    "claude": 200_000,
    "claude-2.0": 100_000,
    "claude-fable": 1_000_000,
    "claude-haiku-5": 1_000_000,
    "claude-instant": 100_000,
    "claude-mythos": 1_000_000,
    "claude-opus-4-6": 1_000_000,
    "claude-opus-4-7": 1_000_000,
    "claude-opus-4-8": 1_000_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-4-6": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    # Google
    "gemini": 1_048_576,
    "gemini-1.0": 32_760,
    "gemini-1.5-pro": 2_097_152,
    "gemini-pro": 32_760,
    "gemma": 8_192,
    "gemma-3": 131_072,
    "gemma-3-1b": 32_768,
    "gemma-3n": 32_768,
    "gemma-4": 131_072,
    # Llama
    "llama-2": 4_096,
    "llama-3": 8_192,
    "llama-3-1": 131_072,
    "llama-3-2": 131_072,
    "llama-3-3": 131_072,
    "llama-3.1": 131_072,
    "llama-3.2": 131_072,
    "llama-3.3": 131_072,
    "llama-4": 1_048_576,
    "llama-4-scout": 10_485_760,
    # Qwen
    "qwen": 32_768,
    "qwen-2.5-turbo": 1_000_000,
    "qwen-3-coder": 262_144,
    "qwen-3-max": 262_144,
    "qwen-3-next": 262_144,
    "qwen-3-vl": 262_144,
    "qwen-3.5": 262_144,
    "qwen-3.6": 262_144,
    "qwen-long": 10_000_000,
    "qwen-plus": 131_072,
    "qwen-turbo": 131_072,
    "qwq": 32_768,
    # Mistral
    "codestral": 32_768,
    "codestral-25": 262_144,
    "codestral-latest": 262_144,
    "devstral": 131_072,
    "magistral": 131_072,
    "ministral": 131_072,
    "mistral": 32_768,
    "mistral-large": 131_072,
    "mistral-medium": 131_072,
    "mistral-nemo": 131_072,
    "mistral-small": 32_768,
    "mistral-small-25": 131_072,
    "mistral-small-latest": 131_072,
    "mistral-small3": 32_768,
    "mistral-small3.1": 131_072,
    "mistral-small3.2": 131_072,
    "mixtral": 32_768,
    "mixtral-8x22b": 65_536,
    "open-mistral-nemo": 131_072,
    "pixtral": 131_072,
    # DeepSeek
    "deepseek": 131_072,
    "deepseek-coder": 16_384,
    "deepseek-coder-v2": 131_072,
    "deepseek-llm": 4_096,
    "deepseek-v4": 1_000_000,
}

# `llama-3.1`, `llama3.1` and `meta-llama-3.1` are one family; `vendor/`, `us.anthropic.` and `ft:` do not matter.
_OWNER = re.compile(
    r"^(?:ft:)?(?:(?:[a-z]{2,6}\.)?(?:ai21|amazon|anthropic|cohere|deepseek|google|meta|mistral|openai|qwen)\.|meta-)?"
)
_HYPHEN_BEFORE_VERSION = re.compile(r"(?<=[a-z])-(?=\d)")


def _family(model: str) -> str:
    name = model.strip().lower().rpartition("/")[2]
    return _HYPHEN_BEFORE_VERSION.sub("", _OWNER.sub("", name))


_BY_FAMILY = {_family(prefix): tokens for prefix, tokens in _WINDOWS.items()}
_LONGEST = max(map(len, _BY_FAMILY))


def context_window(model: str) -> int | None:
    """The context window of a model in tokens, by the longest known prefix of its name; None if unknown.

    A path or vendor before the name is ignored (`openai/gpt-5.5`, `us.anthropic.claude-opus-5`)."""
    name = _family(model)
    for length in range(min(len(name), _LONGEST), 0, -1):
        if (tokens := _BY_FAMILY.get(name[:length])) is not None:
            return tokens
    return None


SMALLEST_WINDOW = min(DEFAULT_MAX_TOKENS, *_BY_FAMILY.values())
"""no session without a window of its own has a smaller one"""


def session_window(row: SessionRow | None, configured: int | None) -> int:
    """The context window of a session: its own, or that of `with_compaction`, or that of its model, or the default.

    The first time that a model is not known, a warning is logged."""
    if row is not None and row.max_tokens is not None:
        return row.max_tokens
    if configured is not None:
        return configured
    return _model_window(row.model) if row is not None and row.model else DEFAULT_MAX_TOKENS


@lru_cache(maxsize=1024)
def _model_window(model: str) -> int:
    window = context_window(model)
    if window is None:
        _log.warning(
            "the context window of model %r is not known, %d tokens are assumed: set max_tokens for the session or in"
            " with_compaction",
            model,
            DEFAULT_MAX_TOKENS,
        )
    return window or DEFAULT_MAX_TOKENS
