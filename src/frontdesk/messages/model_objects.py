"""Objects of other libraries as JSON: the models that provider SDKs return. They are recognised by `model_dump`, so
that no SDK is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class ProviderModel(Protocol):
    """An object of a provider's SDK: a pydantic model."""

    @property
    def model_dump(self) -> Callable[..., Any]: ...


def is_model(value: object) -> bool:
    """Whether a value is an object that can dump itself, as pydantic models do."""
    return callable(getattr(value, "model_dump", None)) and not isinstance(value, type)


def dump_model(model: Any) -> Any:
    """What was set in a model, under the names that the provider uses, and the defaults that say something.

    What the provider did not send is None in the model, and left out. A default such as the role of a message class is
    part of the message although nobody has set it."""
    given = model.model_dump(mode="json", by_alias=True, warnings=False, exclude_unset=True)
    return _with_defaults(given, model.model_dump(mode="json", by_alias=True, warnings=False))


def message_in(value: Any) -> Any:
    """The message in a dumped model: that of a chat completion with one choice, otherwise the value itself."""
    if type(value) is dict and value.get("object") == "chat.completion":
        match value.get("choices"):
            case [{"message": message}]:
                return message
    return value


def _with_defaults(given: Any, full: Any) -> Any:
    if type(given) is dict and type(full) is dict:
        return {
            key: _with_defaults(given[key], value) if key in given else value
            for key, value in full.items()
            if key in given or value is not None
        }
    if type(given) is list and type(full) is list and len(given) == len(full):
        return [_with_defaults(*pair) for pair in zip(given, full, strict=True)]
    return given
