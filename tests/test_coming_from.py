"""The calls that the page "coming from ..." names exist."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import frontdesk
from frontdesk import Session, SessionManager, States

PAGE = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text()
CALL = re.compile(r"\b(manager|session|states)\.(\w+)(?:\(([^`]*?)\))?")
OWNERS: dict[str, type] = {"manager": SessionManager, "session": Session, "states": States}


def test_every_call_in_the_tables_exists() -> None:
    calls = [(owner, name) for owner, name, _ in CALL.findall(PAGE)]
    assert len(calls) > 100
    assert [call for call in calls if not callable(getattr(OWNERS[call[0]], call[1], None))] == []


def test_every_class_and_environment_variable_exists() -> None:
    classes = set(re.findall(r"`(SessionKey|Session|SessionManager|Orchestrator|StateExistsError)\b", PAGE))
    assert all(hasattr(frontdesk, name) for name in classes)
    source = "".join(path.read_text() for path in Path(frontdesk.__file__).parent.rglob("*.py"))
    assert all(name in source for name in ("SESSION_TTL_SECONDS", "FRONTDESK_STATE_URL"))


def test_every_keyword_in_the_tables_is_a_parameter() -> None:
    for owner, name, arguments in CALL.findall(PAGE):
        known = signature(getattr(OWNERS[owner], name)).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        for keyword in re.findall(r"(\w+)=", arguments):
            assert takes_any or keyword in known, f"{owner}.{name} has no {keyword}"
