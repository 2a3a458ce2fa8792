"""What makes a text rank higher, and what excludes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frontdesk.search.query import parse
from frontdesk.search.ranking import Candidate, Matcher, Statistics, rank, rank_texts
from frontdesk.search.snippets import SNIPPET_LENGTH, snippet
from frontdesk.search.tokeniser import TOKENISER

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
