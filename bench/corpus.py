"""A generated corpus to search in: words as frequent as in real texts, some rare ones, Chinese, and phrases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

WORDS_A_MESSAGE = 60
SESSION_SIZE = 1_000
_VOCABULARY = 50_000
_RARE_EVERY = 9_973
_COMMON = """
    report server queue cache login mail import page error nightly deploy meeting customer invoice budget plan review
    table column index data network Friday Monday morning think check fix file path token request answer question
"""
_CHINESE = "我们明天部署新的服务器请检查日志和数据库连接然后重启缓存"

QUERIES = {
    "rare word": "zanzibar",
    "common word": "report",
    "question": "what did we decide about the nightly report for zanzibar?",
    "common question": "which server had the error in the nightly report on Monday morning?",
    "phrase": '"nightly report"',
    "prefix": "zanz*",
    "Chinese": "部署",
    "filtered": "report role:user after:2024-02",
}


class Corpus:
    """Messages of about sixty words, drawn with frequencies that fall with the rank of a word (Zipf)."""

    def __init__(self, seed: int = 5) -> None:
        self._random = random.Random(seed)
        syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
        words = dict.fromkeys(_COMMON.split())
        while len(words) < _VOCABULARY:
            words["".join(self._random.choices(syllables, k=self._random.choice((2, 3, 4))))] = None
        self._words = list(words)
        # Shifted, so that common words are in every seventh message: a word in all of them would be a stop word.
        self._weights = list(accumulate(1 / (rank + 60) for rank in range(len(self._words))))

    def messages(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        for number in range(first, first + count):
            words = self._random.choices(self._words, cum_weights=self._weights, k=WORDS_A_MESSAGE)
            text = " ".join(words)
            if number % _RARE_EVERY == 0:
                text += " zanzibar"
            if number % 50 == 0:
                start = self._random.randrange(len(_CHINESE) - 12)
                text += " " + _CHINESE[start : start + 12]
            yield {
                "id": f"m{number}",
                "role": ("user", "assistant")[number % 2],
                "content": text,
                "created_at": f"2024-{1 + number % 12:02}-01T00:00:00Z",
            }
