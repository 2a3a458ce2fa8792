"""What makes a text rank higher, and what excludes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk import SessionManager
from frontdesk.moments import to_microseconds
from frontdesk.search.fields import text_terms
from frontdesk.search.query import parse
from frontdesk.search.ranking import Candidate, Matcher, Statistics, rank, rank_texts
from frontdesk.search.snippets import SNIPPET_LENGTH, snippet
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.stores.memory import MemoryStore

WORDS = ("amber", "birch", "cedar", "dune", "ember")
documents = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), max_size=12)


def best(query: str, *texts: str, consecutive: bool = False) -> list[int]:
    return [index for index, _ in rank_texts(query, texts, TOKENISER, consecutive=consecutive)]


def shown(text: str, query: str, **options: int) -> str:
    return snippet(text, parse(query, TOKENISER), TOKENISER, **options)


def test_more_of_the_words_rank_higher() -> None:
    assert best("amber birch cedar", "amber x y", "amber birch y", "amber birch cedar", "x y z") == [2, 1, 0]


def test_rarer_words_rank_higher() -> None:
    assert best("amber birch", "amber x", "amber y", "amber z", "birch x") == [3, 0, 1, 2]


async def test_a_word_of_all_texts_is_found_while_the_index_grows() -> None:
    class Growing(MemoryStore):
        async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
            """Many texts are added after a search has read how many there are."""
            await other.session("s").append_all({"role": "user", "content": "amber"} for _ in range(20))
            await other.reindex()
            return await super().frequencies(namespace, terms)

    store = Growing()
    manager, other = SessionManager(store), SessionManager(store)
    await manager.session("s").append({"role": "user", "content": "amber"})
    await manager.reindex()
    assert (await manager.search("amber")).total > 0


def test_a_word_in_a_shorter_text_ranks_higher() -> None:
    assert best("amber", "amber " + "x " * 50, "amber x") == [1, 0]


def test_adjacent_words_rank_above_scattered_ones() -> None:
    assert best("nightly report", "nightly x y z report", "x y nightly report z") == [1, 0]


def test_a_phrase_must_be_in_its_order() -> None:
    assert best('"amber birch"', "birch amber", "amber x birch", "an amber birch") == [2]
    assert best('"部署服务"', "服务部署", "我们部署服务器") == [1]
    assert best('"修复parseFile函数"', "请修复parseFile函数吧", "修复函数 parseFile") == [0, 1]


def test_a_prefix_ranks_below_the_word_itself() -> None:
    assert best("depl*", "deploying x", "depth x", "deplete x") == [0, 2]
    assert best("amber amb*", "ambit", "amber") == [1, 0]


def test_words_near_a_message_count_for_it() -> None:
    talk = ["lamp x", "y", "z", "q", "p", "r", "s", "t", "u", "which amber shade?", "the lamp from Oslo"]
    assert best("amber lamp", *talk, consecutive=True) == [9, 10, 0]
    alone = dict(rank_texts("amber lamp", talk, TOKENISER, consecutive=False))
    together = dict(rank_texts("amber lamp", talk, TOKENISER, consecutive=True))
    assert alone[0] == together[0]
    assert together[10] > alone[10]


def test_the_message_before_a_branch_counts_for_it() -> None:
    query = parse("amber lamp", TOKENISER)
    matcher, statistics = Matcher(query), Statistics()
    question, answer = (matcher.match(TOKENISER.terms(text), statistics) for text in ("which amber?", "the lamp"))
    assert question is not None
    assert answer is not None
    candidates = [Candidate(question, 1, 7), Candidate(answer, 2, 0)]
    apart = rank(query, candidates, statistics)
    follows = rank(query, candidates, statistics, {2: (1, 7)})
    assert follows[0] > apart[0]
    assert follows[1] > apart[1]
    assert rank(query, candidates, statistics, {2: (1, 0)}) == apart


def test_a_long_query_is_ranked_by_its_rarest_words() -> None:
    common = [f"common{number}x" for number in range(500)]
    texts = [*(" ".join(common) for _ in range(5)), "needle"]
    assert 5 in best(" ".join([*common, "needle"]), *texts)


@given(documents, st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_excluded_texts_are_never_returned_and_matching_ones_always(texts: list[str], word: str, excluded: str) -> None:
    wanted = {n for n, text in enumerate(texts) if word in text.split() and excluded not in text.split()}
    assert set(best(f"{word} -{excluded}", *texts, consecutive=True)) == wanted


@given(documents, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_every_match_has_a_score_and_neighbours_never_lower_it(texts: list[str], words: list[str]) -> None:
    query = parse(" ".join(words), TOKENISER)
    matcher, statistics = Matcher(query), Statistics()
    found = [matcher.match(TOKENISER.terms(text), statistics) for text in texts]
    kept = [(place, one) for place, one in enumerate(found) if one is not None]
    alone = rank(query, [Candidate(one) for _, one in kept], statistics)
    together = rank(query, [Candidate(one, 0, place) for place, one in kept], statistics)
    assert all(0 < own <= score for own, score in zip(alone, together, strict=True))


# authors, dates and questions


class Said(NamedTuple):
    author: str
    text: str
    day: str = "2024-01-01"
    role: str = "user"


def ranked(query: str, *said: Said) -> list[int]:
    """The indexes of consecutive messages that match, best first."""
    wanted = parse(query, TOKENISER, date(2024, 6, 12))
    matcher, statistics = Matcher(wanted), Statistics()
    candidates = []
    for number, (author, text, day, role) in enumerate(said):
        shown = f"{author}: {text}" if author else text
        found = matcher.match(text_terms(shown, author, role, TOKENISER), statistics)
        at = to_microseconds(datetime.fromisoformat(day))
        candidates.append(None if found is None else Candidate(found, 0, number, at))
    matched = [(number, one) for number, one in enumerate(candidates) if one is not None]
    scores = rank(wanted, [one for _, one in matched], statistics)
    hits = [(score, number) for (number, _), score in zip(matched, scores, strict=True) if score > 0]
    return [number for _, number in sorted(hits, key=lambda hit: (-hit[0], hit[1]))]


def test_what_the_named_author_said_ranks_first() -> None:
    bob, ana = Said("Bob", "I sold the piano"), Said("Ana", "I sold the piano")
    assert ranked("what did Ana sell?", bob, *[Said("Cem", "x")] * 20, ana) == [21, 0]
    assert ranked("what did Bob sell?", bob, *[Said("Cem", "x")] * 20, ana) == [0, 21]


def test_a_name_counts_for_the_author_alone_and_not_for_the_neighbours() -> None:
    others = [Said("Bob", "the piano is sold"), Said("Ana", "hm"), Said("Bob", "the piano is sold")]
    assert ranked("Ana", *others) == [1]


def test_a_line_of_a_transcript_is_by_the_speaker_it_names() -> None:
    said = [Said("", "Bob: I sold the piano"), *[Said("", "Cem: x")] * 20, Said("", "Ana: I sold the piano")]
    assert ranked("what did Ana sell?", *said) == [21, 0]


def test_an_author_who_has_the_name_of_a_stop_word_is_found() -> None:
    assert ranked("what did Will sell?", Said("Ana", "the piano sells"), Said("Will", "the piano sells")) == [1, 0]


def test_i_is_the_user_and_you_is_the_assistant() -> None:
    mine, yours = Said("", "the red piano"), Said("", "the red piano", role="assistant")
    others = [Said("", "x", role="tool")] * 20
    assert ranked("what did I say about the piano?", yours, *others, mine) == [21, 0]
    assert ranked("what did you say about the piano?", mine, *others, yours) == [21, 0]
    assert ranked("what did you tell me about the piano?", mine, *others, yours) == [21, 0]


def test_a_role_alone_is_no_match() -> None:
    far = [Said("", "x", role="assistant")] * 20
    assert ranked("what did I say about the piano?", Said("", "the piano"), *far, Said("", "hello")) == [0]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what did we plan in May?", 1),
        ("what did we plan in March 2023?", 0),
        ("what did we plan on 2024-05-20?", 1),
        ("what did we plan on 20 May 2024?", 1),
        ("what did we plan on June 11th?", 2),
        ("what did we plan yesterday?", 2),
        ("what did we plan last month?", 1),
        ("what did we plan in 2023?", 0),
        ("what may we plan?", 2),
    ],
)
def test_messages_of_a_date_in_the_question_rank_first(query: str, first: int) -> None:
    days = ["2023-03-05", "2024-05-20", "2024-06-11"]
    order = ranked(query, *[Said("", "our plan" + " short" * (2 - n), day) for n, day in enumerate(days)])
    assert order[0] == first
    assert sorted(order) == [0, 1, 2]


def test_a_date_lets_messages_shortly_before_and_after_it_count_more_than_others() -> None:
    days = ["2023-11-01", "2024-06-03", "2024-05-10"]
    assert ranked("the plan of May", *[Said("", "plan", day) for day in days]) == [2, 1, 0]


def test_a_question_ranks_below_the_statement_unless_questions_are_wanted() -> None:
    said = [Said("", "piano?"), *[Said("", "x")] * 20, Said("", "that piano")]
    assert ranked("the piano", *said) == [21, 0]
    assert ranked("which question about the piano?", *said) == [0, 21]


# snippets


def test_a_snippet_marks_what_was_found() -> None:
    assert (
        shown("The Deployment of parse_file is done", "deploy file") == "The **Deployment** of **parse_file** is done"
    )
    assert shown("ein Café in Köln", "cafe koln") == "ein **Café** in **Köln**"
    assert shown("the nightly report failed", '"nightly report"') == "the **nightly report** failed"
    assert shown("我们明天部署服务器", "部署服务") == "我们明天**部署服务**器"
    assert shown("depth and deploying", "depl*") == "depth and **deploying**"


def test_a_snippet_is_one_line_of_whole_words_around_the_matches() -> None:
    text = "word\n" * 200 + "the amber lamp of the birch house " + "end " * 200
    made = shown(text, "amber birch")
    assert "the **amber** lamp of the **birch** house" in made
    assert made.startswith("…word ")
    assert made.endswith(" end…")
    assert "\n" not in made
    assert len(made) <= SNIPPET_LENGTH + 10


def test_a_text_without_spaces_is_cut_between_characters() -> None:
    made = shown("天" * 500 + "部署" + "地" * 500, "部署", length=60)
    assert "天**部署**地" in made
    assert made[0] == made[-1] == "…"
    assert len(made) <= 66


@given(st.text(max_size=400), st.text(max_size=30))
def test_any_text_has_a_snippet(text: str, query: str) -> None:
    assert len(shown(text, query, length=50).replace("**", "")) <= 52


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("***lamp***", "**lamp**"),
        ("*lamp*", "**lamp**"),
        ("a**lamp**b", "a**lamp**b"),
        ("**lamp", "**lamp**"),
        ("lamp**", "**lamp**"),
        ("lamp**lamp", "**lamp** **lamp**"),
        ("***the lamp*** is on", "the **lamp** is on"),
        ("a**the lamp**b", r"a\*\*the **lamp**b"),
        ("lamps in src/**/*.py and tests/**/*.py", r"**lamps** in src/\*\*/*.py and tests/\*\*/*.py"),
    ],
)
def test_asterisks_of_a_text_are_not_taken_for_marks(text: str, expected: str) -> None:
    assert shown(text, "lamp") == expected


_PIECES = ("lamp", "*", "**", "***", "a", " ", "\\", "/", "\n", "lamp " * 9)


@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join), st.sampled_from((20, SNIPPET_LENGTH)))
def test_marks_never_nest(text: str, length: int) -> None:
    made = shown(text, "lamp", length=length)
    plain, marked = (made.split("**")[start::2] for start in (0, 1))
    assert len(plain) == len(marked) + 1
    assert all(part == part.strip(" *") for part in marked)
    if "…" not in made:  # where a text is cut, a part of a longer word may look like the word
        assert all("lamp" in part for part in marked)
        assert not any(re.search(r"\blamp\b", part) for part in plain)
