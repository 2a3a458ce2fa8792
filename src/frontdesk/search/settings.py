"""How the settings of search translate into a tokeniser, and into what an index must have been made with."""

from __future__ import annotations

import Stemmer

from frontdesk.config.settings import SearchSettings
from frontdesk.search.tokeniser import VERSION, Tokeniser, tokeniser_for


def tokeniser(settings: SearchSettings) -> Tokeniser:
    return tokeniser_for(settings.language)


def made_with(settings: SearchSettings) -> str:
    """What the terms of an index depend on."""
    thoughts = "with" if settings.reasoning else "without"
    return f"{settings.language}, tokeniser {VERSION}, stemmer {Stemmer.version()}, {thoughts} reasoning"
