"""Dates in queries: those of the filters `after:` and `before:`, and those that a question names, such as "in May 2023"
or "last week". Messages of a time that a question names rank higher, but none is left out, since what was said about
May may have been said in June."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from frontdesk.moments import DAY, to_microseconds

_FILTER_DATE = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?$", re.ASCII)

NEARBY_DAYS = 30
"""how many days before and after a date messages still count a little"""
NEARBY = 0.5
"""how much a message directly before or after the named time counts; less for each day"""
WEEKDAY = 0.5
"""how much the right day of the week counts"""

_MONTHS = (
    ("january", "jan"),
    ("february", "feb"),
    ("march", "mar"),
    ("april", "apr"),
    ("may",),
    ("june", "jun"),
    ("july", "jul"),
    ("august", "aug"),
    ("september", "sept", "sep"),
    ("october", "oct"),
    ("november", "nov"),
    ("december", "dec"),
)
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_WEEKDAYS = {
    name: number
    for number, name in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
}
_YEAR = r"(?:19|20)\d\d"
_DAY_OF_MONTH = r"(?:[12]\d|3[01]|0?[1-9])"
_MONTH = r"(?i:{})\.?".format("|".join(name for names in _MONTHS for name in names))
# In lower case, "may" and "march" are verbs, unless a day or a year is next to them: "may 2023", "8 may", "in may".
_VERB = rf"(?<!\bin )(?:may|march|mar)\b(?!\.?,? (?:{_DAY_OF_MONTH}(?:st|nd|rd|th)?|{_YEAR})\b)"
_NAMED_DATE = re.compile(
    rf"\b(?P<year>{_YEAR})(?P<sign>[-/])(?P<month>0[1-9]|1[0-2])(?:(?P=sign)(?P<day>{_DAY_OF_MONTH}))?\b"
    rf"|(?:\b(?P<before>{_DAY_OF_MONTH})(?:st|nd|rd|th)?(?: of)? )?\b(?(before)|(?!{_VERB}))(?P<name>{_MONTH})"
    r"(?![^\W\d_])"
    rf"(?: (?P<after>{_DAY_OF_MONTH})(?:st|nd|rd|th)?\b)?(?:,? (?P<of>{_YEAR})\b)?"
    rf"|\b(?P<alone>{_YEAR})\b"
)
_WEEKDAY_NAME = re.compile(rf"\b({'|'.join(_WEEKDAYS)})s?\b", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\b(?:(?P<word>today|yesterday)|(?P<which>last|this|past) (?P<unit>week|month|year)"
    r"|(?P<number>\d{1,3}|an?|two|three|four|five|six) (?P<units>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
_NUMBERS = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_EPOCH = date(1970, 1, 1)
_LAST_DAY = (date(2999, 12, 31) - _EPOCH).days


def start_of(text: str) -> int | None:
    """The first moment of a year, a month or a day, in UTC."""
    found = _FILTER_DATE.match(text)
    if found is None:
        return None
    try:
        moment = datetime(int(found[1]), int(found[2] or 1), int(found[3] or 1), tzinfo=UTC)
    except ValueError:
        return None
    return to_microseconds(moment)


class NamedDate(NamedTuple):
    """A time that a question names: from one day to another, a part of any year, or a day of the week."""

    first: date | None = None
    last: date | None = None
    month: int = 0
    day: int = 0
    weekday: int | None = None

    def closeness(self, at: int) -> float:
        """From 1 for a message of that time down to 0 for one that is far from it."""
        day = _EPOCH + timedelta(days=min(max(at // DAY, 0), _LAST_DAY))
        if self.weekday is not None:
            return WEEKDAY if day.weekday() == self.weekday else 0.0
        gap = min((_gap(day, first, last) for first, last in self._periods(day.year)), default=NEARBY_DAYS)
        return 1.0 if gap == 0 else max(0.0, NEARBY * (1 - gap / NEARBY_DAYS))

    def _periods(self, year: int) -> Iterator[tuple[date, date]]:
        if self.first is not None and self.last is not None:
            yield self.first, self.last
            return
        for number in (year - 1, year, year + 1):
            period = _period(number, self.month, self.day)
            if period is not None:
                yield period


def closeness(dates: tuple[NamedDate, ...], at: int) -> float:
    return max((named.closeness(at) for named in dates), default=0.0)


def find_dates(text: str, today: date) -> tuple[NamedDate, ...]:
    """The dates that a text names."""
    return (
        *(named for found in _NAMED_DATE.finditer(text) if (named := _absolute(found)) is not None),
        *(NamedDate(weekday=_WEEKDAYS[found[1].lower()]) for found in _WEEKDAY_NAME.finditer(text)),
        *(NamedDate(*_relative(found, today)) for found in _RELATIVE.finditer(text)),
    )


def _absolute(found: re.Match[str]) -> NamedDate | None:
    year = int(found["year"] or found["of"] or found["alone"] or 0)
    month = int(found["month"] or 0)
    if found["name"]:
        month = _MONTH_NUMBERS[found["name"].rstrip(".").lower()]
    day = int(found["day"] or found["before"] or found["after"] or 0)
    if not year:
        return NamedDate(month=month, day=day)
    period = _period(year, month, day)
    return None if period is None else NamedDate(*period)


def _period(year: int, month: int, day: int) -> tuple[date, date] | None:
    """The first and the last day of a year, a month (with a month) or a day (with both); None if there is no such."""
    if not month:
        return date(year, 1, 1), date(year, 12, 31)
    days = monthrange(year, month)[1]
    if day > days:
        return None
    return date(year, month, day or 1), date(year, month, day or days)


def _relative(found: re.Match[str], today: date) -> tuple[date, date]:
    if found["word"]:
        day = today if found["word"].lower() == "today" else today - timedelta(days=1)
        return day, day
    if found["number"]:
        number, size = found["number"].lower(), _UNIT_DAYS[found["units"].lower()]
        day = today - timedelta(days=size * (_NUMBERS.get(number) or int(number)))
        return day - timedelta(days=size // 7), day + timedelta(days=size // 7)
    is_current = found["which"].lower() == "this"
    unit = found["unit"].lower()
    if unit == "week":
        start = today - timedelta(days=today.weekday() + (0 if is_current else 7))
        return start, start + timedelta(days=6)
    year = today.year if is_current or unit == "month" else today.year - 1
    month = 0 if unit == "year" else today.month if is_current else today.month - 1
    if unit == "month" and month == 0:
        year, month = year - 1, 12
    period = _period(year, month, 0)
    assert period is not None, "every month and every year has days"
    return period


def _gap(day: date, first: date, last: date) -> int:
    return max((first - day).days, (day - last).days, 0)
