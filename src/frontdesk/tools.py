"""`Tool`: a function that a model can call, with the JSON schema of its arguments. It always returns text."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from frontdesk.calls import call
from frontdesk.errors import (
    BlockTooLargeError,
    CompactionNotFoundError,
    ConflictError,
    FrontdeskError,
    InvalidInputError,
    MessageNotFoundError,
    NotFoundError,
    ReadonlyBlockError,
    SessionNotFoundError,
)
from frontdesk.messages.exact_json import compact
from frontdesk.unattended import log_failure

_log = logging.getLogger("frontdesk.tools")

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list, tuple),
    "null": (type(None),),
}
_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for a model. Calling it returns text and never raises. For wrong arguments, or if the tool fails, the text
    tells the model what is wrong and what to do.

    `run` is called with the arguments by name. It may be sync (it then runs in a thread) or async."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., str | Awaitable[str]] = field(repr=False, compare=False)

    async def __call__(self, /, **arguments: Any) -> str:
        problem = find_problem(self.parameters, arguments)
        if problem is not None:
            return f"Error: {problem} {_usage(self.name, self.parameters)}"
        try:
            text: str = await call(partial(self.run, **arguments))
            return text
        except FrontdeskError as error:
            return f"Error: {_explain(error, self.name)}"
        except Exception as error:
            log_failure(_log, error, "the tool %s failed", self.name)
            return f"Error: {self.name} failed ({type(error).__name__}): try again later, or continue without it."

    async def call(self, arguments: str | Mapping[str, Any] | None) -> str:
        """Call the tool with the arguments as the model wrote them: a JSON text, or an object where the provider has
        decoded it. Returns text, as calling the tool does."""
        if isinstance(arguments, str):
            try:
                arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return f"Error: the arguments are not valid JSON. {_usage(self.name, self.parameters)}"
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
            return f"Error: the arguments must be one JSON object. {_usage(self.name, self.parameters)}"
        return await self(**arguments)

    def to_openai(self) -> dict[str, Any]:
        """The entry for `tools=` of an OpenAI chat completion."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def to_openai_responses(self) -> dict[str, Any]:
        """The entry for `tools=` of an OpenAI response."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", **function, "strict": False}

    def to_anthropic(self) -> dict[str, Any]:
        """The entry for `tools=` of an Anthropic message."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}


def check_tools(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """Tools by name. Raises `InvalidInputError`."""
    if not isinstance(tools, Mapping) or not all(isinstance(tool, Tool) for tool in tools.values()):
        raise InvalidInputError("tools must be True, False, or a dict of tools by name, as `tools()` returns")
    return tools


def schema(required: dict[str, dict[str, Any]], optional: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """A JSON schema for an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def find_problem(parameters: dict[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments, as a sentence; None if they are valid.

    An argument that is null counts as not given: models write null for what they leave out."""
    properties: dict[str, Any] = parameters.get("properties", {})
    if not parameters.get("additionalProperties", False):
        for name in arguments:
            if name not in properties:
                known = f"the arguments are {_quote(properties)}" if properties else "it takes no arguments"
                return f"there is no argument {compact(name)}; {known}."
    for name in parameters.get("required", ()):
        if arguments.get(name) is None:
            return f"the argument {compact(name)} is missing; it must be {_describe(properties.get(name, {}))}."
    for name, value in arguments.items():
        if value is not None and not _is_valid(properties.get(name, {}), value):
            return f"the argument {compact(name)} is {_show(value)}; it must be {_describe(properties[name])}."
    return None


def _is_valid(rule: Any, value: object) -> bool:
    """Whether a value keeps the parts of a rule that are known here; others are for the tool itself to check."""
    if not isinstance(rule, dict):
        return True
    kinds = rule.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of(kind, value) for kind in kinds):
        return False
    if "enum" in rule and value not in rule["enum"]:
        return False
    if isinstance(value, list | tuple):
        return all(_is_valid(rule.get("items"), item) for item in value)
    low, high = rule.get("minimum"), rule.get("maximum")
    return not isinstance(value, int | float) or ((low is None or value >= low) and (high is None or value <= high))


def _is_of(kind: str, value: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


def _describe(rule: Any) -> str:
    if not isinstance(rule, dict):
        return "a value"
    kind = rule.get("type")
    if "enum" in rule:
        return f"one of {_quote(rule['enum'])}"
    name = _NAMES.get(kind, "a value") if isinstance(kind, str) else "a value"
    if kind == "array" and isinstance(rule.get("items"), dict) and "type" in rule["items"]:
        return f"a list, each of it {_describe(rule['items'])}"
    if "minimum" in rule and "maximum" in rule:
        return f"{name} from {rule['minimum']} to {rule['maximum']}"
    return name


def _usage(name: str, parameters: dict[str, Any]) -> str:
    """How to call the tool, in one sentence for a model."""
    properties: dict[str, Any] = parameters.get("properties", {})
    required = parameters.get("required", ())
    shown = [
        f"{compact(each)}: {_describe(rule)}{'' if each in required else ' (optional)'}"
        for each, rule in properties.items()
    ]
    return f"Call {name} with a JSON object: {{{', '.join(shown)}}}."


def _explain(error: FrontdeskError, name: str) -> str:
    """What a model can do about an error. The error's own text speaks to developers."""
    match error:
        case CompactionNotFoundError(compaction_id=id):
            return f"there is no summary {id!r}: use an id exactly as a summary shows it."
        case SessionNotFoundError(session_id=id):
            return f"there is no session {id!r}: use an id exactly as it was shown to you."
        case MessageNotFoundError(message_id=id):
            return f"there is no message {id!r}: use an id exactly as it was shown to you."
        case ReadonlyBlockError(label=label):
            return f"the block {label!r} cannot be written to: continue without it."
        case BlockTooLargeError() | InvalidInputError():
            return f"{error}."
        case NotFoundError():
            return "there is nothing under this name: use a name or an id exactly as it was shown to you."
        case ConflictError():
            return "something else was changed at the same moment, so nothing was done: try again."
    return f"{name} failed ({type(error).__name__}): try again later, or continue without it."


def _show(value: object) -> str:
    try:
        text = compact(value)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _quote(names: Any) -> str:
    return ", ".join(map(compact, names))
