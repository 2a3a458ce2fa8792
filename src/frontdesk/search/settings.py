"""The tokeniser for the settings of search, and a description of what an index was made with."""

from __future__ import annotations

import Stemmer

from frontdesk.config.settings import SearchSettings
from frontdesk.search.tokeniser import VERSION, Tokeniser, tokeniser_for


def tokeniser(settings: SearchSettings) -> Tokeniser:
    return tokeniser_for(settings.language)


def made_with(settings: SearchSettings) -> str:
    """Everything that the terms of an index depend on."""
    reasoning = "with" if settings.reasoning else "without"
    return f"{settings.language}, tokeniser {VERSION}, stemmer {Stemmer.version()}, {reasoning} reasoning"
