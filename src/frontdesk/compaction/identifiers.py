"""Pure: finds exact names in a conversation (URLs, paths, ids, quotes of the user), so that a summary does not lose
them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from frontdesk.messages import Message
from frontdesk.messages.formats.pairing import role_of

_NAME = r"[\w.@%+=~\u00c0-\u024f\u0400-\u04ff-]"
_WIDE = "\u3000-\u9fff\uac00-\ud7af\uff00-\uffef"
_EXTENSIONS = (
    "bat|c|cc|cfg|conf|cpp|cs|css|csv|db|docx?|env|gif|go|gz|h|hpp|html?|ini|ipynb|java|jpe?g|js|jsonl?|jsx|kt|lock|log|"
    "lua|md|mp[34]|parquet|pdf|php|png|pptx?|proto|ps1|py|pyi|rb|rs|rst|scss|sh|sql|sqlite3?|svg|swift|tar|tf|toml|"
    "tsx?|tsv|txt|wasm|wav|webp|xlsx?|xml|ya?ml|zip"
)
# ASCII word characters only: Chinese and Japanese write an identifier's neighbours without a space. Every alternative
# starts at the beginning of a run of its characters, so that long runs without a match cost linear time.
_IDENTIFIER = cache(
    lambda: re.compile(
        rf"""
    (?<![a-z0-9+.-]) [a-z][a-z0-9+.-]{{1,20}}+ :// [^\s<>"'`|\\^{{}}{_WIDE}]{{1,2000}}                          # URL
    | (?<![\w.%+-]) [\w.%+-]{{1,64}}+ @ [a-z0-9-]+ (?: \. [a-z0-9-]+ )+                                   # e-mail
    | (?<![\w]) [0-9a-f]{{8}} - (?: [0-9a-f]{{4}} - ){{3}} [0-9a-f]{{12}} (?![\w])                             # UUID
    | (?<![\w]) (?: [a-z]: [\\/] | \\\\ (?=[\w.$-]+ \\) ) [^\s<>"'`|*?,;:{_WIDE}]{{1,2000}}                 # Windows
    | (?<!{_NAME}) (?<![/<:]) (?: (?: ~ | \.\.? ) (?: / {_NAME}++ )+ | (?: / {_NAME}++ ){{2,}} ) /?          # Unix
    | (?<!{_NAME}) (?<![/<:]) / {_NAME}+ \. [a-z][a-z0-9]{{0,9}} (?!{_NAME})                                 # /a.txt
    | (?<!{_NAME}) (?<![/\\]) (?: {_NAME}++ / )+ {_NAME}* \. [a-z][a-z0-9]{{0,9}} (?![\w/])                  # relative
    | (?<!{_NAME}) (?<![/\\]) {_NAME}* [\w-] \. (?: {_EXTENSIONS} ) (?![\w/-]) (?!\.\w)                      # bare name
    | (?<![\w]) (?: 0x )? (?= [a-f]*+ [0-9] ) (?= [0-9]*+ [a-f] ) [0-9a-f]{{7,128}} (?![\w])                  # hash
    """,
        re.VERBOSE | re.IGNORECASE | re.ASCII,
    )
)
"""compiled when it is first needed: that takes 10 milliseconds"""
_LIST = "Identifiers: "
_SENTENCE_MARKS = ".,;:!?*"
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"(?<!`)(``?)(?!`)([^`\n](?:[^\n]{0,198}?[^`\n])??)\1(?!`)")


def identifiers(text: str) -> list[str]:
    """URLs, file paths, UUIDs, hashes and e-mail addresses in `text`, each once, in the order of first mention."""
    found = (_trimmed(match.group()) for match in _IDENTIFIER().finditer(text))
    return list(dict.fromkeys(filter(None, found)))


def _trimmed(found: str) -> str:
    """Without the marks of the sentence around it; a bracket is removed if it was not opened inside."""
    while True:
        rest = found.rstrip(_SENTENCE_MARKS)
        if rest.endswith((")", "]")) and rest.count(rest[-1]) > rest.count("(" if rest[-1] == ")" else "["):
            rest = rest[:-1]
        if rest == found:
            return rest
        found = rest


def quoted_by_user(messages: Sequence[Message]) -> list[str]:
    """What users put in backticks, each once, in order; not blocks of code, nor more than 200 characters."""
    found: dict[str, None] = {}
    for message in messages:
        if role_of(message) == "user" and not message.is_summary:
            for match in _QUOTED.finditer(_FENCED.sub(" ", message.text)):
                if quoted := match.group(2).strip():
                    found[quoted] = None
    return list(found)


def keep_identifiers(summary: str, needed: Sequence[str], limit: int = 40) -> str:
    """`summary` with a list of those of `needed` that it dropped.

    `needed` is in the order of mention; of more than `limit` those mentioned last are listed, the latest first.
    """
    latest_first = [each for each in dict.fromkeys(reversed(needed)) if not _mentions(summary, each)]
    if len(latest_first) > limit:
        kept = latest_first[: max(0, limit)]
    else:
        dropped = set(latest_first)
        kept = [each for each in dict.fromkeys(needed) if each in dropped]
    return f"{summary.rstrip()}\n\n{_LIST}{', '.join(kept)}" if kept else summary


def listed(summary: str) -> list[str]:
    """What `keep_identifiers` added to a summary."""
    last = summary.rpartition("\n")[2]
    return last.removeprefix(_LIST).split(", ") if last.startswith(_LIST) else []


def _mentions(summary: str, identifier: str) -> bool:
    """Whether a summary names it as a whole, not as the beginning of a longer name."""
    if identifier not in summary:
        return False
    return re.search(rf"(?<!\w){re.escape(identifier)}(?!\w)", summary, re.ASCII) is not None
