"""The default token counter compared with the real o200k_base encoding, on texts that it was not calibrated with."""

import argparse
import base64
import csv
import hashlib
import heapq
import inspect
import json
import random
import textwrap
import uuid
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import bpe_openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk.messages import tokens
from frontdesk.messages.tokens import estimate_tokens

O200K = bpe_openai.get_encoding("o200k_base")
BYTES = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(40))


def written_samples(promise: str) -> dict[str, list[str]]:
    kinds = defaultdict(list)
    for path in sorted((Path(__file__).parent / "token_samples" / promise).glob("*.txt")):
        kinds[path.name.split(".")[0]].append(path.read_text(encoding="utf-8"))
    return dict(kinds)


def pieces_of_source(*modules: ModuleType) -> list[str]:
    sources = [inspect.getsource(module) for module in modules]
    return [text[at : at + 3_000] for text in sources for at in range(0, min(len(text), 12_000) - 600, 3_000)]


def orders(seed: int) -> list[dict[str, object]]:
    chance = random.Random(seed)
    return [
        {
            "orderId": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "customer": {"name": chance.choice(["Ada Brook", "Jon Field", "Rosa Lind"]), "vip": chance.random() < 0.5},
            "amount": round(chance.uniform(1, 5000), 2),
            "placed_at": f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T09:{chance.randint(10, 59)}:00Z",
            "lines": [{"sku": f"AX-{chance.randint(1000, 9999)}", "qty": chance.randint(1, 9)} for _ in range(3)],
            "tracking_url": f"https://parcels.example.com/track/{chance.randint(10**9, 10**10)}?lang=en",
            "note": chance.choice([None, "Leave it with the neighbour, please.", "Gift wrapping"]),
        }
        for _ in range(6)
    ]


PROMISED = written_samples("promised") | {
    "python": pieces_of_source(tokens, argparse, csv, heapq, textwrap),
    "compact-json": [json.dumps(orders(seed), separators=(",", ":")) for seed in range(3)],
    "spaced-json": [json.dumps(orders(seed)) for seed in range(3, 6)],
    "indented-json": [json.dumps(orders(seed), indent=2) for seed in range(6, 9)],
    "base64": [base64.b64encode(BYTES).decode(), base64.encodebytes(BYTES).decode()],
    "hex": [BYTES.hex(), BYTES.hex(" ")],
}
REASONABLE = written_samples("reasonable")
ONE_OF_EACH = st.sampled_from([texts[0] for texts in (PROMISED | REASONABLE).values()])


def exact_tokens(text: str) -> int:
    return len(O200K.encode(text, disallowed_special=()))


def error(*texts: str) -> float:
    return sum(map(estimate_tokens, texts)) / sum(map(exact_tokens, texts)) - 1


def test_there_is_a_sample_of_every_kind() -> None:
    assert len(PROMISED) == 19
    assert len(REASONABLE) == 9
    assert min(len(text) for texts in (PROMISED | REASONABLE).values() for text in texts) >= 200


@pytest.mark.parametrize("kind", PROMISED)
def test_the_estimate_is_within_15_percent_of_o200k(kind: str) -> None:
    assert abs(error(*PROMISED[kind])) <= 0.15


@pytest.mark.parametrize("kind", PROMISED)
def test_no_single_text_is_off_by_more_than_25_percent(kind: str) -> None:
    assert [(text[:40], error(text)) for text in PROMISED[kind] if abs(error(text)) > 0.25] == []


@pytest.mark.parametrize("kind", REASONABLE)
def test_other_languages_and_mixtures_are_within_25_percent(kind: str) -> None:
    assert abs(error(*REASONABLE[kind])) <= 0.25


def test_the_errors_of_all_kinds_cancel_out() -> None:
    errors = [error(*texts) for texts in PROMISED.values()]
    assert abs(sum(errors) / len(errors)) <= 0.05


def test_the_empty_text_has_no_tokens() -> None:
    assert estimate_tokens("") == 0


@pytest.mark.parametrize("text", ["a", " ", "\n", "\0", "7", "é", "你", "한", "\ud800"])
def test_a_single_character_costs_one_token(text: str) -> None:
    assert estimate_tokens(text) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Yes, please.",
        "What is the weather in Paris?",
        "好的，谢谢你",
        "はい、お願いします",
        "네, 감사합니다",
        '{"a": 1}',
    ],
)
def test_a_short_text_is_off_by_three_tokens_at_most(text: str) -> None:
    assert abs(estimate_tokens(text) - exact_tokens(text)) <= 3


@pytest.mark.parametrize("text", ["x" * 4_000, "ACGT" * 1_000, "ა" * 4_000, "\u0301" * 4_000, "ｗ" * 4_000])
def test_a_run_without_breaks_is_not_counted_as_one_word(text: str) -> None:
    assert estimate_tokens(text) > len(text) / 8


@pytest.mark.parametrize("text", ["plain words, ", "值得信赖的", "mixed 文字 ", "\ud800", "\0"])
def test_ten_million_characters_are_counted_in_proportion(text: str) -> None:
    times = 10_000_000 // len(text)
    assert estimate_tokens(text * times) == pytest.approx(estimate_tokens(text * 1_000) * times / 1_000, rel=0.02)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_has_a_plausible_estimate(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert min(1, size) <= estimate_tokens(text) <= 2 * size


@given(ONE_OF_EACH, st.integers(2, 20))
def test_repeating_a_text_multiplies_its_estimate(text: str, times: int) -> None:
    assert estimate_tokens(text * times) == pytest.approx(estimate_tokens(text) * times, rel=0.02)


@given(st.data())
def test_the_two_parts_of_a_text_cost_about_as_much_as_the_whole(data: st.DataObject) -> None:
    text = data.draw(ONE_OF_EACH)
    cut = data.draw(st.integers(0, len(text)))
    parts = estimate_tokens(text[:cut]) + estimate_tokens(text[cut:])
    assert parts == pytest.approx(estimate_tokens(text), rel=0.15, abs=4)


def test_the_fixed_costs_are_the_documented_ones() -> None:
    assert tokens.MESSAGE_TOKENS == 4
    assert tokens.IMAGE_TOKENS == 1_600
    assert tokens.FILE_TOKENS == 2_500
    assert tokens.DEFAULT_MAX_TOKENS == 200_000
