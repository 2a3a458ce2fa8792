"""Which errors mean that the prompt is too long: real error texts, and similar ones that do not mean that."""

from __future__ import annotations

from typing import Any

import pytest

from frontdesk.errors import ModelError, ModelOverflowError, ModelRateLimitError
from frontdesk.models import is_context_overflow
from frontdesk.models.overflow import context_limit

OVERFLOWS = {
    "OpenAI": "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However,"
    " your messages resulted in 8227 tokens. Please reduce the length of the messages.\", 'type':"
    " 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}",
    "OpenAI, completions": "This model's maximum context length is 4097 tokens, however you requested 4569 tokens (3545"
    " in your prompt; 1024 for the completion). Please reduce your prompt; or completion length.",
    "OpenAI, responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Azure": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens."
    " Please reduce the length of the messages.",
    "Anthropic": "Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', 'message': 'prompt is"
    " too long: 208656 tokens > 200000 maximum'}}",
    "Anthropic, with the answer": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000,"
    " decrease input length or `max_tokens` and try again",
    "Anthropic, by bytes": "Error code: 413 - {'type': 'error', 'error': {'type': 'request_too_large', 'message':"
    " 'Request exceeds the maximum size'}}",
    "Bedrock": "An error occurred (ValidationException) when calling the Converse operation: Input is too long for"
    " requested model.",
    "Google": "400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'The input token count (81881) exceeds the"
    " maximum number of tokens allowed (65536).', 'status': 'INVALID_ARGUMENT'}}",
    "Google, without a count": "The input token count exceeds the maximum number of tokens allowed 1048576.",
    "vLLM": "Error code: 400 - {'object': 'error', 'message': \"This model's maximum context length is 131072 tokens."
    " However, you requested 156632 tokens (152536 in the messages, 4096 in the completion). Please reduce the length"
    " of the messages or completion.\", 'type': 'BadRequestError', 'param': None, 'code': 400}",
    "vLLM, engine": "The decoder prompt (length 17772) is longer than the maximum model length of 16384.",
    "vLLM, images": "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
    "llama.cpp": "Error code: 400 - {'error': {'code': 400, 'message': 'request (25837 tokens) exceeds the available"
    " context size (25088 tokens), try increasing it', 'type': 'exceed_context_size_error', 'n_prompt_tokens': 25837}}",
    "llama.cpp, earlier": "the request exceeds the available context size. try increasing the context size or enable"
    " context shift",
    "llama-cpp-python": "Requested tokens (2138) exceed context window of 2048",
    "llama-cpp-python, earlier": "Requested tokens exceed context window of 512",
    "Ollama": "the input length exceeds the context length",
    "Ollama, chat": "prompt too long; exceeded max context length by 4 tokens",
    "LM Studio": "Trying to keep the first 14538 tokens when context the overflows. However, the model is loaded with"
    " context length of only 2048 tokens, which is not enough.",
    "LM Studio, later": "The number of tokens to keep from the initial prompt is greater than the context length"
    " (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
    "text-generation-inference": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given:"
    " 1244 `inputs` tokens and 1000 `max_new_tokens`",
    "text-generation-inference, input": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1168",
    "LiteLLM": 'litellm.BadRequestError: litellm.ContextWindowExceededError: AnthropicError - {"type":"error"}',
    "LiteLLM, as 503": "503 litellm.ServiceUnavailableError: OpenAIException - Requested token count exceeds the"
    " model's maximum context length of 131072 tokens.",
    "SGLang": "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
    "Mistral": "Prompt contains 300000 tokens, too large for model with 262144 maximum context length",
    "OpenRouter": "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens"
    ' (42832 of text input). Please reduce the length of either one, or use the "middle-out" transform.',
    "xAI": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    "Moonshot": "Your request exceeded model token limit: 262144 (requested: 300000)",
    "GitHub": "prompt token count of 200000 exceeds the limit of 128000",
    "DashScope": "Range of input length should be [1, 129024]",
    "Perplexity": "The total length of all messages is too long.",
}

OTHERS = {
    "OpenAI, too large for a minute": "Error code: 429 - {'error': {'message': 'Request too large for gpt-4o in"
    " organization org-1 on tokens per min (TPM): Limit 30000, Requested 31538. The input or output tokens must be"
    " reduced in order to run successfully.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}",
    "OpenAI, quota": "You exceeded your current quota, please check your plan and billing details.",
    "Groq": "Request too large for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 6000, Requested"
    " 14810, please reduce your message size and try again.",
    "Azure": "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current pricing"
    " tier. Please retry after 86400 seconds.",
    "Anthropic, rate": "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
    "Bedrock, throttled": "ThrottlingException: Too many tokens, please wait before trying again.",
    "Google, quota": "429 RESOURCE_EXHAUSTED. Quota exceeded for metric: generate_content_free_tier_input_token_count",
    "OpenAI, answer too long": "max_tokens is too large: 100000. This model supports at most 16384 completion tokens,"
    " whereas you provided 100000.",
    "Anthropic, answer too long": "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
    "key": "Incorrect API key provided: sk-***",
    "server": "Internal server error",
    "connection": "Connection error.",
    "nothing": "",
}


class StatusError(Exception):
    """An error with the attributes of those of the official packages."""

    def __init__(self, message: str = "", **values: Any) -> None:
        super().__init__(message)
        self.__dict__.update(values)


@pytest.mark.parametrize("text", OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_wordings_of_an_overflow_are_recognised(text: str) -> None:
    assert is_context_overflow(Exception(text))
    assert is_context_overflow(StatusError(text, status_code=400))


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_other_failures_are_not_overflows(text: str) -> None:
    assert not is_context_overflow(Exception(text))


@pytest.mark.parametrize("text", OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_a_rate_limit_is_never_an_overflow_whatever_its_text(text: str) -> None:
    assert not is_context_overflow(StatusError(text, status_code=429))
    assert not is_context_overflow(StatusError(text, code=429))


@pytest.mark.parametrize(
    "values",
    [
        {"code": "context_length_exceeded"},
        {"code": "400", "type": "exceed_context_size_error"},
        {"status_code": 413},
        {"body": {"error": {"code": "context_length_exceeded"}}},
    ],
)
def test_codes_and_statuses_are_enough_without_a_text(values: dict[str, Any]) -> None:
    assert is_context_overflow(StatusError("Bad request", **values))


def test_the_type_of_litellm_is_enough() -> None:
    class ContextWindowExceededError(Exception):
        pass

    assert is_context_overflow(ContextWindowExceededError("no"))


def test_causes_are_followed_and_may_be_circular() -> None:
    inner = Exception(OVERFLOWS["Anthropic"])
    outer = RuntimeError("the agent failed")
    outer.__cause__ = inner
    assert is_context_overflow(outer)
    inner.args = ("nothing",)
    inner.__cause__ = outer
    assert not is_context_overflow(outer)


def test_our_own_errors_are_distinguished_by_type() -> None:
    assert is_context_overflow(ModelOverflowError("", model="m"))
    assert not is_context_overflow(ModelError("maximum context length", model="m"))
    assert not is_context_overflow(ModelRateLimitError("", model="m", status=429))


@pytest.mark.parametrize(
    ("provider", "limit"),
    [
        ("OpenAI", 8_192),
        ("OpenAI, completions", 4_097),
        ("OpenAI, responses", None),
        ("Azure", 272_000),
        ("Anthropic", 200_000),
        ("Anthropic, with the answer", 200_000),
        ("Bedrock", None),
        ("Google", 65_536),
        ("Google, without a count", 1_048_576),
        ("vLLM", 131_072),
        ("vLLM, engine", 16_384),
        ("vLLM, images", 4_096),
        ("llama.cpp", 25_088),
        ("llama.cpp, earlier", None),
        ("llama-cpp-python", 2_048),
        ("Ollama, chat", None),
        ("LM Studio", 2_048),
        ("LM Studio, later", 4_096),
        ("text-generation-inference", 2_048),
        ("text-generation-inference, input", 1_024),
        ("SGLang", 262_144),
        ("Mistral", 262_144),
        ("OpenRouter", 32_768),
        ("xAI", 131_072),
        ("Moonshot", 262_144),
    ],
)
def test_the_limit_that_an_error_names_is_found(provider: str, limit: int | None) -> None:
    assert context_limit(ValueError(OVERFLOWS[provider])) == limit
