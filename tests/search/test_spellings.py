"""What people type finds what was written: other cases, spellings, scripts, and parts of names, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from frontdesk import SessionManager
from frontdesk.search.query import parse
from frontdesk.search.ranking import rank_texts
from frontdesk.search.snippets import snippet
from frontdesk.search.tokeniser import TOKENISER, Tokeniser
from tests.search.test_relevance import store_url

_NAMES = """
    iPhone YouTube macOS DevOps NumPy iPad eBay GitHub GitLab JavaScript TypeScript LinkedIn WhatsApp PayPal
    FedEx PowerPoint OneDrive iCloud AirPods HomeKit CarPlay FaceTime MacBook iMac tvOS watchOS OpenAI ChatGPT
    DeepMind HuggingFace PyTorch TensorFlow SciPy FastAPI GraphQL MongoDB PostgreSQL MySQL SQLite DynamoDB
    CloudFlare DigitalOcean McDonald DeLorean LaTeX BitTorrent VMware VirtualBox PlayStation YouTuber
"""
NAMES = _NAMES.split()

FOUND = [
    ("report-2.csv", "the table is in /data/2024/report-2.csv"),
    ('"report-2.csv"', "the table is in /data/2024/report-2.csv"),
    ("settings.json", r"look at C:\Users\ana\settings.json"),
    ("1.2.3", "we deploy v1.2.3-rc1 tonight"),
    ('"v1.2.3"', "we deploy v1.2.3-rc1 tonight"),
    ("20.11.1", "FROM node:20.11.1-alpine"),
    ("4.17.21", "npm install lodash@4.17.21"),
    ("550e8400", "trace 550e8400-e29b-41d4-a716-446655440000 failed"),
    ("446655440000", "trace 550e8400-e29b-41d4-a716-446655440000 failed"),
    ("3f786850", "reverted 3f786850e387550fdab836ed7e6dc881de23001b"),
    ("3f78685", "reverted 3f786850e387550fdab836ed7e6dc881de23001b"),
    ("3f786850e", "reverted 3f786850e387550fdab836ed7e6dc881de23001b"),
    ("3f786850e3", "reverted 3f786850e387550fdab836ed7e6dc881de23001b"),
    ("3f786850e38", "reverted 3f786850e387550fdab836ed7e6dc881de23001b"),
    ("wifi", "the wi-fi is down"),
    ("wifi", "the wi\u2011fi is down"),
    ("wi-fi", "the wi\u2010fi is down"),
    ("wi\u2011fi", "the wi-fi is down"),
    ('"report-2.csv"', "it is in /data/report\u20112.csv"),
    ("wi-fi", "the wifi is down"),
    ("email", "send an e-mail"),
    ("e-mail", "send an email"),
    ('"dont look up"', "we saw Don't Look Up"),
    ('"don\'t look up"', "we saw dont look up"),
    ('"wont fix"', "we won't fix it"),
    ('"won\'t fix"', "we wont fix it"),
    ("cant", "it can't be"),
    ("colour", "the color of the lamp"),
    ("color", "colours of lamps"),
    ("organise", "she organized it"),
    ("1000", "it was 1,000 euro"),
    ("1,000", "it was 1000 euro"),
    ("1000", "es waren 1.000 Euro"),
    ("1000", "we paid 1,000, and left"),
    ("1,000,", "we paid 1000 and left"),
    ("2500000", "it was 2,500,000, in all"),
    ("nodejs", "a Node.js server"),
    ("Node.js", "a nodejs server"),
    ("cooperation", "our co\u00adopera\u00adtion"),
    ("password", "the pass\u200bword"),
    ("台湾", "我們住在臺灣"),
    ("國際", "国际会议"),
    ("骯髒", "肮脏的房间"),
    ("纠缠", "他們糾纏不清"),
    ("蝸牛", "蜗牛爬得很慢"),
    ("心脏", "心臟檢查"),
    ("薔薇", "蔷薇花开了"),
    ("さくら", "サクラが咲いた"),
    ("ラーメン", "らーめんを食べた"),
    ("123", "कमरा १२३"),
    ("१२३", "room 123"),
    ("בית", "ראינו את הבית"),
    ("הספר", "קראתי ספר"),
]
GERMAN = [
    ("Restaurant", "Wir treffen uns im Hafenrestaurant."),
    ("Vertrag", "Die Mietverträge sind unterschrieben."),
    ("Versicherung", "Die Krankenversicherung hat bezahlt."),
    ("Schlüssel", "Der Haustürschlüssel ist weg."),
]

OTHER_SCRIPTS = """
    თბილისი ლამაზია; አዲስ አበባ; ঢাকা শহর; హైదరాబాద్ నగరం; കൊച്ചി നഗരം; කොළඹ නගරය; ལྷ་ས་གྲོང་ཁྱེར།; ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ; ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ; ߒߞߏ ߞߊ߲;
    અમદાવાદ શહેર; ਅੰਮ੍ਰਿਤਸਰ ਸ਼ਹਿਰ; ಬೆಂಗಳೂರು ನಗರ; تهران زیبا; لاہور شہر; Thành phố Hà Nội; İstanbul güzeldir; Łódź jest;
    ייִדיש איז שיין; ܐܪܡܝܐ ܠܫܢܐ; ရန်ကုန်မြို့; ភ្នំពេញ; ວຽງຈັນ; กรุงเทพสวย
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["memory", "sqlite", "postgres"])
async def manager(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SessionManager]:
    folder: Path = tmp_path_factory.mktemp("spellings")
    async with SessionManager(store_url(request, folder)) as manager:
        for number, (_, text) in enumerate(FOUND):
            await manager.session(f"s{number}").append({"id": "m", "role": "user", "content": text})
        for number, name in enumerate(NAMES):
            texts = (f"my new {name} arrived", f"my new {name.lower()} arrived")
            await manager.session(f"n{number}").append_all(
                [{"id": f"m{at}", "role": "user", "content": text} for at, text in enumerate(texts)]
            )
        await manager.reindex()
        yield manager


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_typed_finds_what_was_written(manager: SessionManager) -> None:
    missed = []
    for number, (query, text) in enumerate(FOUND):
        hits = await manager.session(f"s{number}").search(query)
        if not hits or "**" not in hits[0].snippet:
            missed.append((query, text))
    assert missed == []


@pytest.mark.asyncio(loop_scope="module")
async def test_names_are_found_in_any_case(manager: SessionManager) -> None:
    missed = []
    for number, name in enumerate(NAMES):
        session = manager.session(f"n{number}")
        queries = (name, name.lower(), f'"new {name}"', f'"new {name.lower()} arrived"')
        missed += [query for query in queries if len(await session.search(query)) != 2]
    assert missed == []


def test_a_word_of_any_script_is_found_as_it_is_written() -> None:
    texts = [text.strip() for text in OTHER_SCRIPTS.split(";")]
    for number, text in enumerate(texts):
        for word in text.split():
            assert [found for found, _ in rank_texts(word, texts, TOKENISER, consecutive=False)] == [number], word


@pytest.mark.parametrize(("query", "text"), GERMAN)
def test_a_german_compound_is_found_by_its_last_part(query: str, text: str) -> None:
    assert rank_texts(query, [text], Tokeniser("german"), consecutive=False)


def test_a_snippet_shows_the_identifier_that_was_asked_for() -> None:
    text = " ".join(f"def function_{number}(): pass" for number in range(100))
    assert "**function_77**" in snippet(text, parse("function_77", TOKENISER), TOKENISER)
