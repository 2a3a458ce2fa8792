"""What a term is: a table for all scripts, and the properties that documents and queries rely on."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk.errors import ConfigurationError
from frontdesk.search.tokeniser import LANGUAGES, TOKENISER, Tokeniser, fold

TERMS = [
    ("Deployment deploys DEPLOYED", ["deploy", "deploy", "deploy"]),
    ("she went, the children go", ["she", "go", "the", "child", "go"]),
    ("Caroline's don't", ["carolin", "s", "don", "t"]),
    ("parseHTMLFile", ["parsehtmlfil", "pars", "html", "file"]),
    ("foo_bar", ["foo", "bar", "foo_bar"]),
    ("a/b/c.py", ["a", "b", "c", "py", "a/b/c.py", "c.py"]),
    ("v1.2.3", ["v", "1", "2", "3", "v1.2.3", "1.2.3", "v1"]),
    ("E1234!", ["e", "1234", "e1234"]),
    ("C++ and C#", ["c", "and", "c", "c++", "c#"]),
    ("ana@example.org", ["ana", "exampl", "org", "ana@example.org", "example.org"]),
    ("Café cafe\u0301 CAFE", ["cafe", "cafe", "cafe"]),
    ("Straße STRASSE", ["strass", "strass"]),
    ("Łódź Ørsted ﬁle", ["lodz", "orst", "file"]),
    ("ＡＢＣ ｶﾅ", ["abc", "カナ", "カ", "ナ"]),
    ("部署服务", ["部署", "署服", "服务", "部", "署", "服", "务"]),
    ("修复parseFile函数", ["修复", "parsefil", "函数", "修", "复", "pars", "file", "函", "数"]),
    ("サーバー", ["サー", "ーバ", "バー", "サ", "ー", "バ", "ー"]),
    ("서버를", ["서버", "버를", "서", "버", "를"]),
    ("ไทย", ["ไท", "ทย", "ไ", "ท", "ย"]),
    ("ລາວ ខ្មែ", ["ລາ", "າວ", "ខ្", "្ម", "មែ", "ລ", "າ", "ວ", "ខ", "្", "ម", "ែ"]),
    ("серверы сервера новый", ["сервер", "сервер", "нов"]),
    ("किताबें किताब", ["किताब", "किताब"]),
    ("المكتبة مكتبة كِتَاب", ["مكتب", "مكتب", "كتاب"]),
    ("👍🏽 ❤️ 🇩🇪", ["👍", "❤", "🇩🇪"]),
    ("iPhones", ["iphon", "i", "phone"]),
    ("/data/report-2.csv", ["datum", "report", "2", "csv", "data/report-2.csv", "report-2.csv", "2.csv"]),
    ("lodash@4.17.21", ["lodash", "4", "17", "21", "lodash@4.17.21", "4.17.21"]),
    ("1,000 1.000 1000", ["1000", "1", "000", "1000", "1.000", "1000"]),
    ("wi-fi e-mail", ["wi", "fi", "e", "mail", "wi-fi", "wifi", "e-mail", "email"]),
    ("colour analysed theatres", ["color", "analyz", "theater"]),
    ("dont", ["don", "t"]),
    ("so\u00adft ze\u200bro", ["soft", "zero"]),
    ("臺灣", ["台湾", "台", "湾"]),
    ("ひらがな", ["ヒラ", "ラガ", "ガナ", "ヒ", "ラ", "ガ", "ナ"]),
    ("१२३", ["123"]),
    ("הבית", ["הבית", "בית"]),
    ("  ... -- !? ", []),
]


@pytest.mark.parametrize(("text", "terms"), TERMS, ids=[text for text, _ in TERMS])
def test_a_text_becomes_terms(text: str, terms: list[str]) -> None:
    assert TOKENISER.terms(text) == terms


def test_other_languages_have_their_own_stems() -> None:
    german = Tokeniser("german")
    assert german.terms("Häuser")[0] == german.terms("Haus")[0] == german.terms("HAUSES")[0]
    assert Tokeniser("french").terms("déployées") == Tokeniser("french").terms("déployer")
    assert {"english", "german", "french", "spanish", "russian", "arabic", "hindi"} <= LANGUAGES


def test_parts_of_german_compounds_are_terms() -> None:
    german = Tokeniser("german")
    assert set(german.terms("Restaurant Hafen Vertrag")) <= set(german.terms("Hafenrestaurant Mietverträge"))


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose one of"):
        Tokeniser("klingon")


def test_a_query_has_pairs_and_a_single_character_only_if_it_is_alone() -> None:
    runs = [words for words, _ in TOKENISER.query_runs("部署服务 器 parse")]
    assert runs == [("部署", "署服", "服务"), ("器",), ("pars",)]


def test_a_run_that_is_too_long_is_not_a_term() -> None:
    assert TOKENISER.terms("x" * 10_000 + " word") == ["word"]


@given(st.text(max_size=200))
def test_runs_have_the_same_terms_as_the_text(text: str) -> None:
    runs = list(TOKENISER.runs(text))
    assert sorted(term for run in runs for term in run.terms) == sorted(TOKENISER.terms(text))
    assert all(0 <= run.start < run.end <= len(text) for run in runs)
    assert all(TOKENISER.terms(text))


def test_accents_do_not_matter_in_english() -> None:
    assert TOKENISER.terms("Résumés") == TOKENISER.terms("resume")


@given(st.text(max_size=100))
def test_composed_and_decomposed_letters_are_the_same(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert fold(composed) == fold(unicodedata.normalize("NFD", composed))


@given(st.text(alphabet=st.characters(max_codepoint=0x24F, categories=["Ll", "Lu", "Zs"]), max_size=60))
def test_folding_again_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)
