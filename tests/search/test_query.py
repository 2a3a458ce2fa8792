"""Any text is a valid query, and means what it looks like."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontdesk import SessionManager
from frontdesk.moments import to_microseconds
from frontdesk.search.query import MAX_CLAUSES, MAX_TERMS, Query, parse
from frontdesk.search.tokeniser import TOKENISER, Tokeniser, fold


def parsed(text: str) -> Query:
    return parse(text, TOKENISER)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what did Ana say about the deployment on Friday?", ("ana", "say", "deploy", "friday")),
        ("to be or not to be", ("to", "be", "or", "not")),
        ("red red RED reds", ("red",)),
        ("部署服务", ("部署", "署服", "服务")),
        ("m1", ("m1",)),
        ("parseHTMLFile_2", ("parsehtmlfile_2", "pars", "html", "file", "parsehtmlfil")),
        ("когда сервер был обновлён", ("сервер", "обновл")),
        ("temperature -5", ("temperatur", "5")),
        ("tar --verbose", ("tar", "verbos")),
        ("foo:bar https://a.bc/d", ("foo:bar", "foo", "bar", "https", "a.bc/d", "a.bc", "bc")),
        ("before:tomorrow", ("before:tomorrow", "tomorrow")),
        ("SELECT * FROM users; DROP TABLE users--", ("select", "user", "drop", "tabl")),
        ('an unbalanced "quote', ("unbalanc", "quot")),
        ("NEAR(a b) AND col:^x NOT {y}", ("near", "b", "col", "x", "y")),
    ],
)
def test_stop_words_are_left_out_of_the_words(text: str, words: tuple[str, ...]) -> None:
    assert parsed(text).words == words


def test_quotes_require_a_phrase() -> None:
    query = parsed('"the nightly report" failed')
    assert query.phrases == ((("the", "night", "report"),),)
    assert query.words == ("the", "night", "report", "fail")
    assert parsed("“nightly report”").phrases == parsed('"nightly report"').phrases
    assert parsed('""').is_empty


def test_a_minus_excludes_a_word_or_a_phrase() -> None:
    query = parsed('report -draft -"not yet"')
    assert query.words == ("report",)
    assert query.excluded == ((("draft",),), (("not", "yet"),))


def test_a_text_that_folds_into_two_words_is_no_prefix() -> None:
    assert parsed("terms:\ufdfa*").prefixes == ()
    assert parsed("\ufdfa*").prefixes == (fold("\ufdfa"),)


def test_an_asterisk_makes_a_prefix() -> None:
    assert parsed("Depl*").prefixes == ("depl",)
    assert parsed("deployment*").words == ("deploy",)
    assert parsed("*").is_empty
    assert parsed("**bold**").prefixes == ("bold",)


def test_filters_are_not_words() -> None:
    query = parsed('role:User session:s-1 tag:"two words" tag:x after:2024 before:2024-05 before:2025-01-31 lamp')
    assert query.words == ("lamp",)
    assert query.roles == {"user"}
    assert query.sessions == {"s-1"}
    assert query.tags == {"two words", "x"}
    assert query.after == to_microseconds(datetime(2024, 1, 1, tzinfo=UTC))
    assert query.before == to_microseconds(datetime(2024, 5, 1, tzinfo=UTC))


def test_authors_are_required_in_any_case_and_with_accents_or_without() -> None:
    assert parsed("lamp from:Ana from:JOSÉ").authors == {"ana", "jose"}
    assert parsed('from:"Ana Lima" lamp').words == ("lamp",)
    assert parsed("a letter from Ana").authors == frozenset()


@pytest.mark.parametrize("date", ["2024-13", "2024-02-30", "0000", "24", "2024-1-1-1"])
def test_an_invalid_date_is_words(date: str) -> None:
    query = parsed(f"after:{date}")
    assert query.after is None
    assert query.words


def test_stop_words_are_those_of_the_language() -> None:
    assert parse("was hat Ana über das Haus gesagt", Tokeniser("german")).words == ("ana", "haus", "gesagt")
    assert "was" in parse("was hat Ana", Tokeniser("finnish")).words


def test_a_very_long_query_is_cut() -> None:
    query = parsed(" ".join(f"word{number}x" for number in range(5_000)))
    assert len(query.words) == MAX_TERMS
    assert len(parsed(" ".join(f'-a{number} "b{number}"' for number in range(500))).excluded) == MAX_CLAUSES


def test_a_query_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parsed("x").words = ()  # type: ignore[misc]
    assert hash(parsed("a b")) == hash(parsed("a b"))


OPERATORS = [
    '"',
    "“",
    "-",
    "*",
    ":",
    "role:",
    "after:",
    "before:2024-",
    "tag:",
    "AND",
    "NEAR(",
    ")",
    "'",
    ";",
    "%",
    "\0",
]
OTHERS = ["word", "部署", "👍", "é", "\u0301", "\ud800", " ", "\n", "--", "OR 1=1", "\u202e", "ไทย", "🇩", "x" * 300]
PIECES = st.sampled_from([*OPERATORS, *OTHERS])
TYPED = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join))


@given(TYPED)
@example('"' * 10_000)
@example("a.b/" * 2_500)
@example("-" * 10_000)
@example("👍" * 10_000)
@example("部" * 10_000)
def test_no_text_is_an_invalid_query(text: str) -> None:
    query = parse(text, TOKENISER)
    assert len(query.words) <= MAX_TERMS


async def test_no_search_raises_for_any_text() -> None:
    async with SessionManager("memory://") as manager:
        await manager.append("chat", {"id": "m1", "role": "user", "content": 'word "部署" 👍 é a.b/c'})
        for text in ('"', "-word", "word -", "wor* -x*", "role:", "after:2024-", "' OR 1=1 --", "a" * 10_000, "\ud800"):
            results = await manager.search(text)
            assert results.total == len(results)
