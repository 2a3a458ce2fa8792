"""The calls on a session that are not in the table of `calls`: their arguments need work, or they are more than one
request. Each is a function of what sends it and of the arguments that were given, by name."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any, get_args

from frontdesk import ANY_HEAD, NewMessage
from frontdesk.checks import check_list
from frontdesk.client.connection import HTTPRequest
from frontdesk.client.remote import Remote, RemoteHandle
from frontdesk.client.values import to_body, to_query, write_message
from frontdesk.config.scopes import check_scope
from frontdesk.context.blocks import ContextBlock
from frontdesk.errors import ConfigurationError, ContextOverflowError, InvalidInputError
from frontdesk.http.addresses import write_id
from frontdesk.lifecycle.transitions import MANAGER_DEFAULT, ManagerDefault
from frontdesk.messages import Message
from frontdesk.messages.formats import check_format
from frontdesk.messages.ingestion import missing_id
from frontdesk.models.overflow import is_context_overflow
from frontdesk.records import Appended
from frontdesk.session.preparing import check_rendering
from frontdesk.session.requests import ProviderFormat
from frontdesk.tools import Tool, check_tools

Given = dict[str, Any]
_OVERRIDES = ("id", "role", "text")
_TIMES = ("idle_after", "archive_after", "delete_after")


# messages


async def append(remote: RemoteHandle, given: Given) -> Appended:
    """The id is chosen here if the message has none, so that the request can be repeated."""
    message = given.pop("message")
    overrides = {name: given.pop(name, None) for name in _OVERRIDES}
    if any(value is not None for value in overrides.values()):
        message = NewMessage(message, **overrides)
    body = to_body({**write_message(message, needs_id=True), **given})
    appended: Appended = await remote.ask(HTTPRequest("POST", "/messages", body=body, repeats=True), Appended)
    return appended


async def append_all(remote: RemoteHandle, given: Given) -> list[Appended]:
    written = _written(given.pop("messages"), needs_id=True)
    request = HTTPRequest("POST", "/messages/batch", body=to_body({"new_messages": written, **given}), repeats=True)
    appended: list[Appended] = await remote.ask(request, list[Appended], "items")
    return appended


async def upsert(remote: RemoteHandle, given: Given) -> Appended:
    written = write_message(given.pop("message"), needs_id=True)
    appended: Appended = await remote.ask(_request_with_id("PUT", written, given), Appended)
    return appended


async def update_message(remote: RemoteHandle, given: Given) -> Message:
    written = write_message(given.pop("message"), needs_id=False)
    if "id" not in written:
        raise missing_id()
    message: Message = await remote.ask(_request_with_id("PATCH", written, given), Message, "message")
    return message


async def replace_messages(remote: RemoteHandle, given: Given) -> list[Message]:
    written = _written(given.pop("messages"), needs_id=False)
    request = HTTPRequest("PUT", "/messages", body=to_body({"new_messages": written, **given}), keyed=True)
    messages: list[Message] = await remote.ask(request, list[Message], "messages")
    return messages


async def clear_messages(remote: RemoteHandle, given: Given) -> None:
    expected = given.get("expected_head", ANY_HEAD)
    query = {} if expected is ANY_HEAD else {"expected_head": expected or ""}
    await remote.ask(HTTPRequest("DELETE", "/messages", query, keyed=True), type(None))


def _written(messages: Any, *, needs_id: bool) -> list[dict[str, Any]]:
    return [write_message(each, needs_id=needs_id) for each in check_list(messages, "messages")]


def _request_with_id(method: str, written: dict[str, Any], given: Given) -> HTTPRequest:
    path = f"/messages/{write_id(written.pop('id'))}"
    return HTTPRequest(method, path, body=to_body({**written, **given}), keyed=True)


async def history(remote: RemoteHandle, given: Given) -> Any:
    format = given.get("format")
    if format is not None:
        check_format(format)
    check_rendering(given.get("notes", "user"), given.get("alternate", False))
    kind: Any = list[Message] if format is None else list[Any]
    return await remote.ask(HTTPRequest("GET", "/history", to_query(given)), kind, "messages")


async def prepare(remote: RemoteHandle, given: Given) -> Any:
    if not isinstance(given["format"], str):
        choices = ", ".join(get_args(ProviderFormat))
        raise InvalidInputError(f"unknown format {given['format']!r}: choose one of {choices}")
    check_rendering(given.get("notes", "user"), given.get("alternate", False))
    tools = given.get("tools", True)
    if not isinstance(tools, bool):
        given["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in check_tools(tools).values()
        ]
    return await remote.ask(HTTPRequest("POST", "/prepare", body=to_body(given), repeats=True), dict[str, Any])


# attributes, compaction, blocks


async def set_lifecycle(remote: RemoteHandle, given: Given) -> None:
    """All three are sent: one that is not given goes back to that of the manager."""
    times = {name: given.get(name, MANAGER_DEFAULT) for name in _TIMES}
    for name, time in times.items():
        if time is not None and not isinstance(time, timedelta | ManagerDefault):
            raise InvalidInputError(f"{name} must be a timedelta or None, not {type(time).__name__}")
    body = to_body({name: "default" if time is MANAGER_DEFAULT else time for name, time in times.items()})
    await remote.ask(HTTPRequest("PATCH", "", body=body, keyed=True), type(None))


async def on_overflow(remote: RemoteHandle, given: Given) -> bool:
    """Which errors mean that the context was too long is decided here: the server does not know them."""
    error = given["error"]
    if not isinstance(error, BaseException):
        raise InvalidInputError(f"the error of a model call must be an exception, not {type(error).__name__}")
    if not (isinstance(error, ContextOverflowError) or is_context_overflow(error)):
        return False
    shorter: bool = await remote.ask(HTTPRequest("POST", "/overflow", keyed=True, long=True), bool, "shorter")
    return shorter


async def replace_context_block(remote: RemoteHandle, given: Given) -> ContextBlock:
    version = given.pop("if_version", None)
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    path = f"/blocks/{write_id(given.pop('label'))}"
    request = HTTPRequest("PUT", path, body=to_body(given), headers=headers, keyed=True)
    block: ContextBlock = await remote.ask(request, ContextBlock)
    return block


# tools


async def tools(remote: RemoteHandle, given: Given) -> dict[str, Tool]:
    scope = sendable(None if given.get("scope", "guest") is None else check_scope(given.get("scope", "guest")))
    query = {"scope": ""} if scope is None else to_query({"scope": scope})
    found = await remote.ask(HTTPRequest("GET", "/tools", query), dict[str, Any])
    options = {"scope": scope, "created_at": found["created_at"]}
    return {each["name"]: Tool(**each, run=_runner(remote, each["name"], options)) for each in found["tools"]}


def sendable(scope: Any) -> Any:
    """A scope that a request can have. Raises `ConfigurationError` for a function."""
    if callable(scope):
        raise ConfigurationError("a function cannot be sent to a server: pass the name of a scope, or filters")
    return scope


def _runner(remote: Remote, name: str, options: dict[str, Any]) -> Any:
    return partial(call_tool, remote, name, options)


async def call_tool(remote: Remote, name: str, options: dict[str, Any], /, **arguments: Any) -> str:
    """What a tool of the server returns."""
    body = to_body({"arguments": arguments, **options})
    text: str = await remote.ask(HTTPRequest("POST", f"/tools/{name}", body=body, keyed=True, long=True), str, "text")
    return text


CALLS: dict[str, Any] = {
    function.__name__: function
    for function in (
        append,
        append_all,
        upsert,
        update_message,
        replace_messages,
        clear_messages,
        history,
        prepare,
        set_lifecycle,
        on_overflow,
        replace_context_block,
        tools,
    )
}
