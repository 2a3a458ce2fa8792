"""Errors: one root, the tree that the module draws, and errors that survive a process boundary with their ids."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import frontdesk
from frontdesk import errors
from frontdesk.error_codes import error_class, error_code
from frontdesk.errors import (
    BlockNotFoundError,
    BlockTooLargeError,
    FrontdeskError,
    HeadMovedError,
    InvalidTransitionError,
    MessageTooLargeError,
    ModelRateLimitError,
    SessionEndedError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    TurnBusyError,
)

EXAMPLES: list[tuple[FrontdeskError, str, dict[str, Any]]] = [
    (
        SessionNotFoundError("a{b}", "shop"),
        "no session 'a{b}' in namespace 'shop': it was never written to, or it was deleted",
        {"session_id": "a{b}", "namespace": "shop"},
    ),
    (
        HeadMovedError("m1", None, "s"),
        "the head of session 's' is None, not 'm1': read what was added and decide again",
        {"expected": "m1", "head": None, "session_id": "s"},
    ),
    (
        BlockNotFoundError("notes", ("memory", "system")),
        "no context block 'notes': there are 'memory', 'system'",
        {"label": "notes", "labels": ("memory", "system")},
    ),
    (
        BlockTooLargeError("notes", 120, 100),
        "context block 'notes' would have 120 tokens, 20 more than its limit of 100: shorten it",
        {"label": "notes", "tokens": 120, "max_tokens": 100},
    ),
    (
        TurnBusyError("s", "host/1/x", datetime(2026, 1, 2, tzinfo=UTC)),
        "session 's' is busy, because host/1/x has had its turn since 2026-01-02 00:00:00+00:00: try again, wait"
        " longer, or choose another `on_busy`",
        {"session_id": "s", "holder": "host/1/x", "since": datetime(2026, 1, 2, tzinfo=UTC)},
    ),
    (
        SessionEndedError("s", "archived", "new"),
        "session 's' is archived (reason new): append with reopen=True to continue it, or start another under its key"
        " with `new`",
        {"session_id": "s", "status": "archived", "end_reason": "new"},
    ),
    (
        InvalidTransitionError("s", "archived", "idle", ("active", "suspended")),
        "session 's' is archived and cannot become idle: it can only become active or suspended",
        {"session_id": "s", "status": "archived", "wanted": "idle", "allowed": ("active", "suspended")},
    ),
    (MessageTooLargeError("too large", size=10, limit=5), "too large", {"size": 10, "limit": 5}),
    (
        ModelRateLimitError("slow down", model="m", status=429, retry_after=2.5),
        "slow down",
        {"model": "m", "status": 429, "retry_after": 2.5},
    ),
]


@pytest.mark.parametrize(("error", "text", "details"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_says_what_happened_and_carries_its_ids(
    error: FrontdeskError, text: str, details: dict[str, Any]
) -> None:
    assert (str(error), error.args, error.details) == (text, (text,), details)
    assert repr(error) == f"{type(error).__name__}({text!r})"


@pytest.mark.parametrize(("error", "text", "details"), EXAMPLES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_can_be_copied_and_pickled(
    error: FrontdeskError, text: str, details: dict[str, Any], again: Callable[[FrontdeskError], FrontdeskError]
) -> None:
    copied = again(error)
    assert type(copied) is type(error)
    assert (str(copied), copied.details) == (text, details)


def test_the_ids_are_attributes_too() -> None:
    error = SessionNotFoundError(session_id="s", namespace="shop")
    assert (error.session_id, error.namespace) == ("s", "shop")


def _all_errors() -> set[type[FrontdeskError]]:
    found = {FrontdeskError}
    pending = [FrontdeskError]
    while pending:
        children = [kind for kind in pending.pop().__subclasses__() if kind.__module__ == errors.__name__]
        found.update(children)
        pending += children
    return found


def test_the_docstring_draws_the_tree_of_errors() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        match = re.match(r"((?:[│ ] {3})*)(?:[├└]── )?(\w+Error)\b", line)
        if match:
            depth = len(match[1]) // 4 + ("─" in line)
            path[depth:] = [match[2]]
            drawn[match[2]] = path[depth - 1] if depth else ""
    expected = {
        kind.__name__: next((base.__name__ for base in kind.__bases__ if issubclass(base, FrontdeskError)), "")
        for kind in _all_errors()
    }
    assert drawn == expected


def _blank(kind: type[FrontdeskError]) -> FrontdeskError:
    return kind.__new__(kind)


def test_the_page_about_errors_lists_every_error_once_with_its_codes() -> None:
    page = Path(__file__).parent.parent.joinpath("docs", "errors.md").read_text()
    row = re.compile(r"^\| `(\w+Error)` \| `(\w+)` \| (\d+) \| (\d+) \| ([a-z ]+) \|$", re.MULTILINE)
    codes = {kind.__name__: error_code(_blank(kind)) for kind in _all_errors()}
    assert sorted(row.findall(page)) == sorted((name, *map(str, code)) for name, code in codes.items())


def test_a_client_finds_the_class_of_a_code() -> None:
    assert {error_class(error_code(_blank(kind)).code) for kind in _all_errors()} == _all_errors()
    assert error_class("session_not_found") is SessionNotFoundError
    assert error_class("unheard_of") is None


def test_an_uncertain_error_is_neither_refused_nor_undone() -> None:
    certain = StoreUnavailableError("no answer", path="a.db")
    uncertain = StoreUnavailableError("no answer", uncertain=True, path="a.db")
    assert (certain.uncertain, uncertain.uncertain) == (False, True)
    assert pickle.loads(pickle.dumps(uncertain)).uncertain
    assert error_code(certain) == ("store_unavailable", 503, 8, "did not happen")
    assert error_code(uncertain) == ("store_unavailable", 504, 9, "may have happened")


def test_an_error_of_another_package_has_the_codes_of_the_class_above_it() -> None:
    class DriverError(StoreError):
        pass

    assert error_code(DriverError("no")) == error_code(StoreError("no"))


def test_every_error_is_exported() -> None:
    assert {kind.__name__ for kind in _all_errors()} <= set(frontdesk.__all__)
