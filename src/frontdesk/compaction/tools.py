"""The tool `expand_summary`, with which a model reads the messages under a summary, by its id or by a question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from frontdesk.compaction.render import render_for_summary
from frontdesk.messages import Message
from frontdesk.messages.formats.excerpts import cut_middle
from frontdesk.tools import Tool, schema

_ROOM = 12_000
"""characters that an answer may have"""


def expand_tool(
    expand: Callable[[str], AsyncIterator[Message]], recall: Callable[[str], Awaitable[Sequence[Message]]]
) -> Tool:
    """`expand_summary`: `expand(summary_id)` streams what a summary covers, `recall(question)` finds the best of it."""

    async def run(summary_id: str | None = None, question: str | None = None, skip: int | None = None) -> str:
        if question:
            return await _answer(_each(await recall(question)), skip or 0) or "Nothing under the summaries matches."
        if summary_id:
            return await _answer(expand(summary_id), skip or 0) or "There is nothing more under this summary."
        return "Error: give either 'summary_id' or 'question'."

    return Tool(
        name="expand_summary",
        description="Read the original messages behind a summary, word for word: all of them by the summary's id, or"
        " those that answer a question best.",
        parameters=schema(
            {},
            {
                "summary_id": {"type": "string", "description": "The id of the summary message."},
                "question": {"type": "string", "description": "What you want to know, in plain words."},
                "skip": {"type": "integer", "minimum": 0, "description": "How many messages to skip, to read on."},
            },
        ),
        run=run,
    )


async def _each(messages: Sequence[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


async def _answer(messages: AsyncIterator[Message], skip: int) -> str:
    """As many messages as there is room for, each with its id and date, and how to get the next ones."""
    lines: list[str] = []
    room, number = _ROOM, 0
    async for message in messages:
        number += 1
        if number <= skip:
            continue
        line = f"({message.id}, {message.created_at:%Y-%m-%d}) {render_for_summary([message], max_tool_chars=_ROOM)}"
        if lines and len(line) > room:
            lines.append(f"(there is more: call again with skip={number - 1})")
            break
        lines.append(cut_middle(line, _ROOM))
        room -= len(line)
    return "\n".join(lines)
