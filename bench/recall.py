"""How much of a conversation can be recalled after its compaction: from the view, and with `expand_summary`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.conversations import Conversation, Fact
from frontdesk import Message, Session
from frontdesk.tools import Tool

_MORE = re.compile(r"\(there is more: call again with skip=(\d+)\)$")


@dataclass(frozen=True, slots=True)
class Share:
    """`found` out of `of`."""

    found: float
    of: int

    def __add__(self, other: Share) -> Share:
        return Share(self.found + other.found, self.of + other.of)

    def __str__(self) -> str:
        return f"{100 * self.found / self.of:.1f} %" if self.of else "-"


NOTHING = Share(0, 0)


@dataclass(frozen=True, slots=True)
class Recall:
    """What the view still contains of a conversation, and what the tool returns of messages out of view."""

    survived: dict[str, Share]
    """facts in the view, including its summaries, by kind"""
    in_summaries: Share
    """facts in the view whose messages are out of view"""
    by_shown_id: Share
    """facts out of view that are found by paging through the summaries in the view"""
    by_any_id: Share
    """the same, including compactions without a summary, whose ids only the application knows"""
    by_question: Share
    """messages out of view that are in the first answer to a question about them"""
    asking_seconds: float

    @property
    def survived_in_all(self) -> Share:
        return sum(self.survived.values(), NOTHING)


async def ask(session: Session, conversation: Conversation, view: Sequence[Message], questions: int) -> Recall:
    """Look for every fact, and ask at most this number of questions, evenly spread."""
    text = "\n".join(message.text for message in view)
    shown = {message.id for message in view}
    hidden = [fact for fact in conversation.facts if fact.message_id not in shown]
    tool = (await session.tools()).get("expand_summary")
    summaries = [message.id for message in view if message.is_summary]
    silent = [compaction.id for compaction in await session.compactions() if compaction.summary is None]
    pages = await _pages(tool, summaries)
    start = time.perf_counter()
    answered = await _ask(tool, conversation, shown, questions)
    asking_seconds = time.perf_counter() - start
    return Recall(
        survived=_by_kind(conversation.facts, text),
        in_summaries=_share(hidden, text),
        by_shown_id=_share(hidden, pages),
        by_any_id=_share(hidden, pages + await _pages(tool, silent)),
        by_question=answered,
        asking_seconds=asking_seconds,
    )


def _by_kind(facts: Sequence[Fact], text: str) -> dict[str, Share]:
    kinds = sorted({fact.kind for fact in facts})
    return {kind: _share([fact for fact in facts if fact.kind == kind], text) for kind in kinds}


def _share(facts: Sequence[Fact], text: str) -> Share:
    return Share(sum(fact.is_in(text) for fact in facts), len(facts))


async def _pages(tool: Tool | None, ids: Iterable[str]) -> str:
    """Everything that the tool returns for these compactions, page by page."""
    pages: list[str] = []
    for summary_id in ids if tool is not None else ():
        skip: int | None = 0
        while skip is not None and tool is not None:
            pages.append(await tool(summary_id=summary_id, skip=skip))
            more = _MORE.search(pages[-1])
            skip = int(more[1]) if more else None
    return "\n".join(pages)


async def _ask(tool: Tool | None, conversation: Conversation, shown: set[str], most: int) -> Share:
    answerable = [question for question in conversation.questions if not shown.issuperset(question.evidence)]
    asked = NOTHING
    for question in answerable[:: max(1, -(-len(answerable) // most))]:
        answer = "" if tool is None else await tool(question=question.text)
        wanted = [message_id for message_id in question.evidence if message_id not in shown]
        asked += Share(sum(f"({message_id}, " in answer for message_id in wanted) / len(wanted), 1)
    return asked
