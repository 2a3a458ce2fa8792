"""`Tool`: a function that a model can call, with the JSON schema of its arguments. It always returns text."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from frontdesk.errors import FrontdeskError

_log = logging.getLogger("frontdesk.tools")

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
_NAMES = {"string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for a model. `await tool(**arguments)` returns text and never raises. For wrong arguments, or if the tool
    fails, the text tells the model what is wrong and what to do."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., Awaitable[str]] = field(repr=False, compare=False)

    async def __call__(self, /, **arguments: Any) -> str:
        problem = find_problem(self.parameters, arguments)
        if problem is not None:
            return f"Error: {problem}"
        try:
            return await self.run(**arguments)
        except FrontdeskError as error:
            return f"Error: {error}"
        except Exception as error:
            _log.warning("the tool %s failed: %s", self.name, type(error).__name__)
            return f"Error: {self.name} failed ({type(error).__name__}): try again later, or continue without it."

    def to_openai(self) -> dict[str, Any]:
        """The entry for `tools=` of an OpenAI chat completion."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        """The entry for `tools=` of an Anthropic message."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}


def schema(required: dict[str, dict[str, Any]], optional: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """A JSON schema for an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def find_problem(parameters: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    """What is wrong with the arguments, as a sentence; None if they are valid."""
    properties: dict[str, dict[str, Any]] = parameters["properties"]
    for name in arguments:
        if name not in properties:
            return f"there is no argument {name!r}; the arguments are {_quote(properties)}."
    for name in parameters["required"]:
        if arguments.get(name) is None:
            return f"the argument {name!r} is missing; {_describe(properties[name])}."
    for name, value in arguments.items():
        if value is not None and not _is_valid(properties[name], value):
            return f"the argument {name!r} is {value!r:.80}; {_describe(properties[name])}."
    return None


def _is_valid(rule: dict[str, Any], value: object) -> bool:
    if isinstance(value, bool) and rule["type"] != "boolean":
        return False
    if not isinstance(value, _TYPES[rule["type"]]):
        return False
    if "enum" in rule and value not in rule["enum"]:
        return False
    low, high = rule.get("minimum"), rule.get("maximum")
    return not isinstance(value, int | float) or ((low is None or value >= low) and (high is None or value <= high))


def _describe(rule: dict[str, Any]) -> str:
    if "enum" in rule:
        return f"it must be one of {_quote(rule['enum'])}"
    if "minimum" in rule and "maximum" in rule:
        return f"it must be {_NAMES[rule['type']]} from {rule['minimum']} to {rule['maximum']}"
    return f"it must be {_NAMES.get(rule['type'], rule['type'])}"


def _quote(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
