"""The calls that are one request each, as a table: the name of each in Python, and its route. The methods are made from
it, with the parameters and the result type of the class that they belong to, so that the two cannot differ."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from frontdesk.checks import check_texts
from frontdesk.client.connection import HTTPRequest
from frontdesk.client.values import to_body, to_query
from frontdesk.errors import InvalidCursorError, InvalidInputError
from frontdesk.http.addresses import write_ref
from frontdesk.keys import SessionKey
from frontdesk.manager.directory import check_key
from frontdesk.messages import check_id
from frontdesk.store import AnyHead, FollowHead

C = TypeVar("C", bound=type)
_IDS = frozenset({"expected_head", "parent"})
_IN_ADDRESS = frozenset({"list", "count", "iterate", "usage"})
"""calls outside of the table whose arguments are in an address"""
_PARAMETER = re.compile(r"\{(\w+)\}")


class Call(NamedTuple):
    """A route. `field` is the field of the answer that is the result (None: all of it). `names` are parameters that
    have another name on the route. A call that `repeats` can be sent twice without an `Idempotency-Key`."""

    method: str
    path: str
    field: str | None = None
    long: bool = False
    names: Mapping[str, str] = {}
    repeats: bool = False

    @property
    def is_query(self) -> bool:
        """Whether the arguments are in the address."""
        return self.method in ("GET", "DELETE")

    def request(self, arguments: Mapping[str, Any]) -> HTTPRequest:
        """The request for arguments by name. Raises `InvalidInputError`."""
        in_path = _PARAMETER.findall(self.path)
        path = self.path.format_map({name: _part(name, arguments[name]) for name in in_path})
        others = {self.names.get(name, name): each for name, each in arguments.items() if name not in in_path}
        return HTTPRequest(
            self.method,
            path,
            to_query(others) if self.is_query else {},
            None if self.is_query else to_body(others),
            keyed=self.method != "GET" and not self.repeats,
            repeats=self.repeats,
            long=self.long,
        )


def _part(name: str, value: Any) -> str:
    return write_ref(value if isinstance(value, SessionKey) else check_id(value, name.replace("_", " ")))


OF_MANAGER = {
    "delete": Call("DELETE", "/sessions/{id}", "deleted"),
    "archive": Call("POST", "/sessions/{id}/archive"),
    "suspend": Call("POST", "/sessions/{id}/suspend"),
    "resume": Call("POST", "/sessions/{id}/resume"),
    "reset": Call("POST", "/sessions/{id}/reset"),
    "add_usage": Call("POST", "/sessions/{id}/usage", "added"),
    "usage_entries": Call("GET", "/sessions/{id}/usage"),
    "stats": Call("GET", "/stats"),
    "search": Call("GET", "/search"),
    "search_info": Call("GET", "/search-info"),
    "recent_events": Call("GET", "/recent-events", "items"),
    "position": Call("GET", "/position", "position"),
    "sweep": Call("POST", "/sweep", long=True, repeats=True),
    "recover": Call("POST", "/recover", long=True, repeats=True),
    "erase": Call("POST", "/erase", long=True),
    "forget_state_store": Call("POST", "/forget-state-store", "forgotten"),
}
OF_SESSION = {
    "info": Call("GET", ""),
    "delete_messages": Call("POST", "/messages/delete", "deleted"),
    "pop": Call("POST", "/messages/pop", "message"),
    "switch": Call("PUT", "/head", "message"),
    "transcript": Call("GET", "/transcript"),
    "page": Call("GET", "/messages"),
    "view": Call("GET", "/view"),
    "outline": Call("GET", "/outline"),
    "timeline": Call("GET", "/timeline"),
    "turn_info": Call("GET", "/turn"),
    "get_message": Call("GET", "/messages/{message_id}", "message"),
    "path_length": Call("GET", "/path-length", "length"),
    "head": Call("GET", "/head", "message"),
    "leaves": Call("GET", "/leaves", "messages"),
    "branches": Call("GET", "/branches", "messages", names={"message_id": "message"}),
    "search": Call("GET", "/search"),
    "rename": Call("PATCH", ""),
    "add_tags": Call("PATCH", "", "tags", names={"tags": "add_tags"}),
    "remove_tags": Call("PATCH", "", "tags", names={"tags": "remove_tags"}),
    "set_metadata": Call("PATCH", "", "metadata", names={"values": "metadata"}),
    "set_summary": Call("PATCH", "", names={"text": "summary"}),
    "add_compaction": Call("POST", "/compactions"),
    "compactions": Call("GET", "/compactions", "items"),
    "expand": Call("GET", "/compactions/{compaction_id}/messages"),
    "undo_compaction": Call("DELETE", "/compactions/{compaction_id}"),
    "context_usage": Call("POST", "/context-usage"),
    "context_breakdown": Call("GET", "/breakdown"),
    "needs_compaction": Call("GET", "/needs-compaction", "needed"),
    "compact": Call("POST", "/compact", "result", long=True),
    "needs_memory_refresh": Call("GET", "/needs-memory-refresh", "needed"),
    "refresh_memory": Call("POST", "/refresh-memory", "facts", long=True),
    "context_blocks": Call("GET", "/blocks", "items"),
    "context_block": Call("GET", "/blocks/{label}"),
    "append_context_block": Call("POST", "/blocks/{label}/append"),
    "block_history": Call("GET", "/blocks/{label}/versions", "items"),
    "count_sharing": Call("GET", "/blocks/{label}/sharing", "sessions"),
    "restore_context_block": Call("POST", "/blocks/{label}/restore"),
    "forget_block_history": Call("DELETE", "/blocks/{label}/versions"),
    "remove_context_entry": Call("DELETE", "/blocks/{label}/entries/{key}", "deleted"),
    "set_system_prompt": Call("PUT", "/prompt"),
    "freeze_system_prompt": Call("POST", "/prompt/freeze", "text"),
    "prompt": Call("GET", "/prompt", "prompt"),
    "refresh_system_prompt": Call("POST", "/prompt/refresh", "text"),
    "context_changes": Call("GET", "/context-changes", "message"),
}


Worked = Callable[[Any, dict[str, Any]], Any]
"""a call that the table cannot describe, as a function of what sends it and of the arguments that were given"""


def remote(calls: Mapping[str, Call | Worked]) -> Callable[[C], C]:
    """Adds methods to a class, in place of those that it inherits, with their parameters, types and description. What
    sends them is the `_remote` of an object."""

    def add(kind: C) -> C:
        for name, call in calls.items():
            setattr(kind, name, _method(call, getattr(kind, name)))
        return kind

    return add


def _method(call: Call | Worked, function: Any) -> Any:
    signature = inspect.signature(function)
    empty: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}
    several = {name: empty[each.kind] for name, each in signature.parameters.items() if each.kind in empty}
    in_query = call.is_query if isinstance(call, Call) else function.__name__ in _IN_ADDRESS
    hints = get_type_hints(function)
    result = hints["return"]
    is_stream = get_origin(result) is AsyncIterator

    def start(self: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        arguments = {**several, **signature.bind(self, *args, **given).arguments}
        del arguments["self"]
        for name, value in arguments.items():
            _check(name, value, hints.get(name), in_query=in_query)
        if not isinstance(call, Call):
            return call(self._remote, arguments)
        return (self._remote.lines if is_stream else self._remote.send)(call, arguments, _item(result))

    if is_stream:

        async def stream(self: Any, /, *args: Any, **given: Any) -> Any:
            async for item in start(self, args, given):
                yield item

        return functools.wraps(function)(stream)

    async def send(self: Any, /, *args: Any, **given: Any) -> Any:
        return await start(self, args, given)

    return functools.wraps(function)(send)


def _check(name: str, value: Any, hint: Any, *, in_query: bool) -> None:
    """Refuse what a request cannot say, or what the server would understand differently, as the session layer does."""
    kinds = get_args(hint) or (hint,)
    if value is None and hint is not Any and NoneType in kinds:
        return
    if name in _IDS and not isinstance(value, AnyHead | FollowHead):
        check_id(value, name)
    elif SessionKey in kinds and str not in kinds:
        check_key(value)
    elif in_query:
        _check_plain(name, value, {*kinds} - {NoneType})


def _check_plain(name: str, value: Any, kinds: set[Any]) -> None:
    """In an address, a number is a text, and nothing is left out: so types are checked here."""
    if kinds == {str, Sequence[str]}:
        check_texts(value, name)
    for kind in (str, int, bool, datetime):
        is_other = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        if kinds == {kind} and is_other:
            if name == "cursor":
                raise InvalidCursorError("a cursor must be the `next_cursor` of a page")
            raise InvalidInputError(f"{name} must be of the type {kind.__name__}, not {type(value).__name__}")


def _item(result: Any) -> Any:
    """The type of the items of a stream, or of a result."""
    return get_args(result)[0] if get_origin(result) is AsyncIterator else result
