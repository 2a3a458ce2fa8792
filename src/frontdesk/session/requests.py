"""The keyword arguments of a provider's call, as `Session.prepare` returns them, in the provider's own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from anthropic.types import MessageParam, TextBlockParam
    from anthropic.types import ToolParam as AnthropicTool
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam, ResponseInputItemParam

ProviderFormat: TypeAlias = Literal["openai", "openai-responses", "anthropic"]


class OpenAIRequest(TypedDict):
    """For `client.chat.completions.create(model=..., **request)`. `tools` is left out where there are none."""

    messages: list[ChatCompletionMessageParam]
    tools: NotRequired[list[ChatCompletionToolParam]]


class OpenAIResponsesRequest(TypedDict):
    """For `client.responses.create(model=..., **request)`. What is empty is left out."""

    input: list[ResponseInputItemParam]
    instructions: NotRequired[str]
    tools: NotRequired[list[FunctionToolParam]]


class AnthropicRequest(TypedDict):
    """For `client.messages.create(model=..., max_tokens=..., **request)`. What is empty is left out."""

    messages: list[MessageParam]
    system: NotRequired[list[TextBlockParam]]
    tools: NotRequired[list[AnthropicTool]]
