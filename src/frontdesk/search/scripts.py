"""The Unicode ranges that the tokeniser distinguishes: words and combining marks, scripts without spaces, emoji."""

from __future__ import annotations

import re

# Written without spaces, or (Hangul) with endings attached to the word: Han, kana, bopomofo, Hangul; Thai, Lao,
# Burmese, Khmer.
_SPACELESS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
    "\uffa0-\uffdc\u1100-\u11ff\U00020000-\U0003fffd"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e80-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17d7\u17dc-\u17e9"
)
# Marks that belong to the letter before them, but do not match `\w`: accents, vowel signs, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a75"
    "\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04"
    "\u0c3e-\u0c56\u0c62\u0c63\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d62\u0d63"
    "\u0d82\u0d83\u0dca-\u0ddf\u0df2\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39\u0f71-\u0f84\u0f8d-\u0fbc"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\ufe20-\ufe2f"
)
_EMOJI = (
    "\u203c\u2049\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
# One of these inside a word makes it an identifier: a path, a version, an address, a name with hyphens.
_JOINT = r"[./\\:@-]"

_LETTERS = rf"[^\W{_SPACELESS}]+(?:[{_MARKS}]+[^\W{_SPACELESS}]*)*"
# Most words in most texts are plain ASCII, for which this pattern is four times as fast.
_PLAIN = rf"(?>[0-9A-Za-z_]+(?:{_JOINT}[0-9A-Za-z_]+)*(?:\+\+|#)?)"
RUN = re.compile(
    rf"{_PLAIN}(?![^\x00-\x7f])|{_LETTERS}(?:{_JOINT}{_LETTERS})*(?:\+\+|#)?|[{_SPACELESS}]+|{_FLAG}|[{_EMOJI}]"
)
ASCII_RUN = re.compile(_PLAIN)
IS_SPACELESS = re.compile(rf"[{_SPACELESS}]").match

# The parts of an identifier. A simple word has one part, itself.
ASCII_PARTS = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PARTS = re.compile(rf"\d+|(?:[^\W\d_]|[{_MARKS}])+")

# Accents and vowel points are dropped. Signs that make another letter (Indic, kana) are not, except for the dot below
# in Devanagari, since loan words are written with and without it.
DROPPED_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u093c"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\ufe20-\ufe2f]"
)
# Letters that differ from a plain one by a stroke or the like, which Unicode does not treat as a mark.
FOLDED_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "ی": "ي", "ک": "ك"}
)

_STEMMERS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


def stemmer_for_script(word: str) -> str | None:
    """The Snowball language for the script of a word; None for Latin, and for scripts without a stemmer."""
    first = word[0]
    if first < "\u0370":
        return None
    return next((language for low, high, language in _STEMMERS if low <= first <= high), None)
