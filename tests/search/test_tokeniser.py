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
    ("parseHTMLFile", ["parsehtmlfile", "pars", "html", "file"]),
    ("foo_bar", ["foo_bar", "foo", "bar"]),
    ("a/b/c.py", ["a/b/c.py", "a", "b", "c", "py"]),
    ("v1.2.3", ["v1.2.3", "1.2.3", "v", "1", "2", "3"]),
    ("E1234!", ["e1234", "e", "1234"]),
    ("C++ and C#", ["c++", "c", "and", "c#", "c"]),
    ("ana@example.org", ["ana@example.org", "ana", "exampl", "org"]),
    ("Café cafe\u0301 CAFE", ["cafe", "cafe", "cafe"]),
    ("Straße STRASSE", ["strass", "strass"]),
    ("Łódź Ørsted ﬁle", ["lodz", "orst", "file"]),
    ("ＡＢＣ ｶﾅ", ["abc", "カナ", "カ", "ナ"]),
    ("部署服务", ["部署", "署服", "服务", "部", "署", "服", "务"]),
    ("修复parseFile函数", ["修复", "修", "复", "parsefile", "pars", "file", "函数", "函", "数"]),
    ("サーバー", ["サー", "ーバ", "バー", "サ", "ー", "バ", "ー"]),
    ("서버를", ["서버", "버를", "서", "버", "를"]),
    ("ไทย", ["ไท", "ทย", "ไ", "ท", "ย"]),
    ("ລາວ ខ្មែ", ["ລາ", "າວ", "ລ", "າ", "ວ", "ខ្", "្ម", "មែ", "ខ", "្", "ម", "ែ"]),
    ("серверы сервера новый", ["сервер", "сервер", "нов"]),
    ("किताबें किताब", ["किताब", "किताब"]),
    ("المكتبة مكتبة كِتَاب", ["مكتب", "مكتب", "كتاب"]),
    ("👍🏽 ❤️ 🇩🇪", ["👍", "❤", "🇩🇪"]),
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


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose one of"):
        Tokeniser("klingon")


def test_a_query_has_pairs_and_a_single_character_only_if_it_is_alone() -> None:
    assert list(TOKENISER.query_runs("部署服务 器 parse")) == [("部署", "署服", "服务"), ("器",), ("pars",)]


def test_a_run_that_is_too_long_is_not_a_term() -> None:
    assert TOKENISER.terms("x" * 10_000 + " word") == ["word"]


@given(st.text(max_size=200))
def test_runs_have_the_same_terms_as_the_text(text: str) -> None:
    runs = list(TOKENISER.runs(text))
    assert [term for run in runs for term in run.terms] == TOKENISER.terms(text)
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
