"""Facets: terms in the index that describe a text by kind, role and time, so that filters are cheap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache

from frontdesk.moments import DAY
from frontdesk.store import TextKind

KINDS: dict[TextKind, str] = {"message": "km", "edit": "ke", "overlay": "ko", "session": "ks"}
# Earlier and later days count as the first or the last one: hits are checked against the exact time anyway.
_FIRST, _LAST = date(1970, 1, 1), date(2099, 12, 31)


def facets_of(kind: TextKind, role: str, at: int) -> list[str]:
    """The facets of a text. The text of a session has no time: its time is the last activity, which changes."""
    facets = [KINDS[kind]]
    if role:
        facets.append(role_facet(role))
    if kind != "session":
        facets += _times(at // DAY)
    return facets


@lru_cache(maxsize=4096)
def _times(days: int) -> list[str]:
    day = _day(days)
    return [f"t{day.year // 10}", f"y{day.year}", f"m{day:%Y%m}", f"d{day:%Y%m%d}"]


@lru_cache(maxsize=256)
def role_facet(role: str) -> str:
    return "r" + role.lower().encode("utf-8", "surrogatepass").hex()


def period_facets(after: int | None, before: int | None) -> tuple[str, ...]:
    """Facets for a period: every text from `after` up to `before` has one of them, all sessions too, and few others."""
    first = _FIRST if after is None else _day(after // DAY)
    last = _LAST if before is None else _day((before - 1) // DAY)
    return (KINDS["session"], *_cover(first, last))


def _day(days: int) -> date:
    """The date that is a number of days after 1970-01-01, within the supported range."""
    return _FIRST + timedelta(days=min(max(days, 0), (_LAST - _FIRST).days))


def _cover(day: date, last: date) -> Iterator[str]:
    """The facets of the decades, years, months and days that together are the period from `day` to `last`.

    For 2024-12-30 to 2026-01-01: d20241230, d20241231, y2025, d20260101."""
    while day <= last:
        for name, end in (
            (f"t{day.year // 10}", date(day.year // 10 * 10 + 9, 12, 31)),
            (f"y{day.year}", date(day.year, 12, 31)),
            (f"m{day:%Y%m}", _end_of_month(day)),
            (f"d{day:%Y%m%d}", day),
        ):
            start = {"t": date(day.year // 10 * 10, 1, 1), "y": date(day.year, 1, 1), "m": day.replace(day=1), "d": day}
            if day == start[name[0]] and end <= last:
                yield name
                day = end + timedelta(days=1)
                break


def _end_of_month(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
