"""Scopes: which sessions a model can reach through a tool or a searchable block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from frontdesk.checks import check_list, check_text
from frontdesk.errors import ConfigurationError
from frontdesk.messages.ids import check_id

ScopeName = Literal["session", "guest", "agent", "namespace"]


class ScopeFilters(TypedDict, total=False):
    """The sessions that have all of these properties. `sessions` are ids."""

    agent: str
    channel: str
    peer: str
    thread: str
    tag: str
    sessions: Sequence[str]


SessionFilter: TypeAlias = Callable[[Any], Any]
"""session info -> whether a model may see the session; sync or async"""
WideScope: TypeAlias = Literal["namespace"] | ScopeFilters | SessionFilter
"""a scope that does not depend on a session"""
SearchScope: TypeAlias = ScopeName | ScopeFilters | SessionFilter

_NAMES = ("session", "guest", "agent", "namespace")
_TEXTS = ("agent", "channel", "peer", "thread", "tag")
_OTHERS = 'filters such as {"agent": "concierge"}, or a function from SessionInfo to true or false'


def check_scope(scope: Any) -> SearchScope:
    """The scope of a session's tools. Raises `ConfigurationError`."""
    if isinstance(scope, str) and scope in _NAMES:
        return scope  # type: ignore[return-value]
    return _check_wide(scope, f"one of {', '.join(map(repr, _NAMES))}, {_OTHERS}")


def check_wide_scope(scope: Any) -> WideScope:
    """The scope of tools that belong to no session. Raises `ConfigurationError`."""
    if scope == "namespace":
        return "namespace"
    return _check_wide(scope, f"'namespace', {_OTHERS}")


def _check_wide(scope: Any, allowed: str) -> WideScope:
    if isinstance(scope, Mapping):
        return _check_filters(scope)
    if not callable(scope):
        shown = repr(scope) if isinstance(scope, str) else type(scope).__name__
        raise ConfigurationError(f"a scope must be {allowed}, not {shown}")
    function: SessionFilter = scope
    return function


def _check_filters(filters: Mapping[str, Any]) -> ScopeFilters:
    """A copy of the filters, so that the scope cannot change later."""
    known = (*_TEXTS, "sessions")
    if not filters:
        raise ConfigurationError("a scope without filters would be the whole namespace: write 'namespace' for that")
    if not set(filters) <= set(known):
        unknown = sorted(map(str, set(filters) - set(known)))
        raise ConfigurationError(f"unknown filters {', '.join(unknown)}: a scope can filter by {', '.join(known)}")
    checked = ScopeFilters()
    for name in _TEXTS:
        if name in filters:
            checked[name] = check_text(filters[name], name)  # type: ignore[literal-required]
    if "sessions" in filters:
        ids = check_list(filters["sessions"], "sessions")
        checked["sessions"] = tuple(check_id(session_id, "session id") for session_id in ids)
    return checked
