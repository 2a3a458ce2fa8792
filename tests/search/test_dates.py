"""The dates that queries name, and those of filters."""

from __future__ import annotations

from datetime import date

import pytest

from frontdesk.search.dates import NamedDate, find_dates, start_of

TODAY = date(2024, 6, 12)
MAY_2023 = NamedDate(date(2023, 5, 1), date(2023, 5, 31))
EIGHTH_OF_MAY = NamedDate(date(2023, 5, 8), date(2023, 5, 8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in May 2023", MAY_2023),
        ("what did she buy in may 2023?", MAY_2023),
        ("may 2023", MAY_2023),
        ("MAY, 2023", MAY_2023),
        ("2023-05", MAY_2023),
        ("2023/05", MAY_2023),
        ("on 2023-05-08", EIGHTH_OF_MAY),
        ("on 2023/05/08?", EIGHTH_OF_MAY),
        ("on 8 may 2023", EIGHTH_OF_MAY),
        ("on may 8th, 2023", EIGHTH_OF_MAY),
        ("the 8th of may 2023", EIGHTH_OF_MAY),
        ("on the 3rd of march", NamedDate(month=3, day=3)),
        ("march 3", NamedDate(month=3, day=3)),
        ("in may", NamedDate(month=5)),
        ("in March", NamedDate(month=3)),
        ("december", NamedDate(month=12)),
        ("yesterday", NamedDate(date(2024, 6, 11), date(2024, 6, 11))),
    ],
)
def test_a_date_is_recognised(text: str, expected: NamedDate) -> None:
    assert find_dates(text, TODAY) == (expected,)


@pytest.mark.parametrize(
    "text",
    ["it may rain", "who may come to the march?", "they march on", "mar", "2023/13/08", "2023-05/08x", "marching"],
)
def test_a_verb_and_a_number_are_no_dates(text: str) -> None:
    assert [found for found in find_dates(text, TODAY) if found.month or found.day] == []


def test_a_filter_takes_hyphens_and_slashes() -> None:
    assert start_of("2023/05/08") == start_of("2023-05-08") == start_of("2023-5-8")
    assert start_of("2023/05") == start_of("2023-05-01")
    assert start_of("2023/13") is start_of("2023-05-08x") is start_of("may") is None
