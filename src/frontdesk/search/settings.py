"""How a namespace is searched: the language of its words, and what an index must have been made with to be of use."""

from __future__ import annotations

from dataclasses import dataclass

import Stemmer

from frontdesk.search.tokeniser import VERSION, Tokeniser, tokeniser_for


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """`language` is a Snowball name; with `reasoning` what models thought is found, too."""

    language: str = "english"
    reasoning: bool = False

    @property
    def tokeniser(self) -> Tokeniser:
        return tokeniser_for(self.language)

    @property
    def made_with(self) -> str:
        """What the terms of an index depend on."""
        thoughts = "with" if self.reasoning else "without"
        return f"{self.language}, tokeniser {VERSION}, stemmer {Stemmer.version()}, {thoughts} reasoning"
