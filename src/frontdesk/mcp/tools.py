"""The tools of the protocol: those of a session and a manager, for a client that has no handle of its own, so that each
call names its session."""

from __future__ import annotations

from typing import Any

from frontdesk.errors import BlockNotFoundError
from frontdesk.manager import SessionManager
from frontdesk.mcp.reach import Reach
from frontdesk.search.tools import OF_MANAGER, OF_SESSION
from frontdesk.tools import Tool, schema

_LISTED = 20
_MOST_LISTED = 100
_SESSION = {"type": "string", "description": "The id of the conversation."}


def build_tools(manager: SessionManager, reach: Reach, *, read_only: bool) -> dict[str, Tool]:
    """The tools, by name. Those that write are left out with `read_only`."""
    found = manager.tools(scope=reach.scope)
    tools = [
        _renamed(found[OF_MANAGER.search], OF_SESSION.search),
        _renamed(found[OF_MANAGER.read], OF_SESSION.read),
        _list_sessions(manager, reach),
        _expand_summary(manager, reach),
    ]
    if not read_only:
        tools += [_update_context(manager, reach), _append_message(manager, reach)]
    return {tool.name: tool for tool in tools}


def _renamed(tool: Tool, name: str) -> Tool:
    """A tool of a manager under the name that it has in a session: here, the scope is that of the whole server."""

    async def run(**arguments: Any) -> str:
        answer = await tool(**arguments)
        # Only an error and the hint after the hits name tools: the rest is what was said in conversations.
        if answer.startswith("Error: "):
            return _rename(answer)
        if name == OF_SESSION.search:
            said, separator, hint = answer.rpartition("\n\n(")
            return said + separator + _rename(hint)
        return answer

    return Tool(name=name, description=_rename(tool.description), parameters=tool.parameters, run=run)


def _rename(text: str) -> str:
    for old, new in zip(OF_MANAGER, OF_SESSION, strict=True):
        text = text.replace(old, new)
    return text


def _list_sessions(manager: SessionManager, reach: Reach) -> Tool:
    async def run(limit: int | None = None, cursor: str | None = None) -> str:
        page = await manager.list(**reach.filters, limit=limit or _LISTED, cursor=cursor)  # type: ignore[arg-type]
        lines = [
            f"{info.id}: {info.name or 'no name'} ({info.status}, {info.message_count} messages,"
            f" last active {info.last_active_at:%Y-%m-%d %H:%M} UTC)"
            for info in page
        ]
        if page.next_cursor is not None:
            lines.append(f"(There are more: call again with cursor={page.next_cursor!r}.)")
        return "\n".join(lines) or "There are no conversations yet."

    return Tool(
        name="list_sessions",
        description="List conversations, those with the newest activity first.",
        parameters=schema(
            {},
            {
                "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED, "description": "How many."},
                "cursor": {"type": "string", "description": "Where the previous page ended."},
            },
        ),
        run=run,
    )


def _expand_summary(manager: SessionManager, reach: Reach) -> Tool:
    async def run(
        session_id: str, summary_id: str | None = None, question: str | None = None, skip: int | None = None
    ) -> str:
        info = await reach.find(manager, session_id)
        tools = await manager.session(info.id).tools(scope=None)
        if "expand_summary" not in tools:
            return "This conversation has no summaries."
        given = {"summary_id": summary_id, "question": question, "skip": skip}
        return await tools["expand_summary"](**{name: value for name, value in given.items() if value is not None})

    return Tool(
        name="expand_summary",
        description="Read the original messages behind a summary, word for word: all of them by the summary's id, or"
        " those that answer a question best.",
        parameters=schema(
            {"session_id": _SESSION},
            {
                "summary_id": {"type": "string", "description": "The id of the summary message."},
                "question": {"type": "string", "description": "What you want to know, in plain words."},
                "skip": {"type": "integer", "minimum": 0, "description": "How many messages to skip, to read on."},
            },
        ),
        run=run,
    )


def _update_context(manager: SessionManager, reach: Reach) -> Tool:
    async def run(session_id: str, label: str, content: str, action: str | None = None) -> str:
        session = manager.session((await reach.find(manager, session_id)).id)
        try:
            if action == "append":
                block = await session.append_context_block(label, content, author="mcp")
            else:
                block = await session.replace_context_block(label, content, author="mcp")
        except BlockNotFoundError:
            labels = ", ".join(repr(block.label) for block in await session.context_blocks())
            return f"Error: there is no block {label!r:.80}. There are: {labels or 'none'}."
        return f"Saved as version {block.version}: {block.tokens} tokens."

    return Tool(
        name="update_context",
        description="Write a context block: a labelled text that is part of the system prompt of a conversation.",
        parameters=schema(
            {
                "session_id": _SESSION,
                "label": {"type": "string", "description": "The label of the block."},
                "content": {"type": "string", "description": "The new text, or the line to add."},
            },
            {
                "action": {
                    "type": "string",
                    "enum": ["replace", "append"],
                    "description": "Replace the whole block (the default) or add a line at its end.",
                }
            },
        ),
        run=run,
    )


def _append_message(manager: SessionManager, reach: Reach) -> Tool:
    async def run(role: str, content: str, session_id: str | None = None, message_id: str | None = None) -> str:
        if session_id is not None:
            ref: Any = (await reach.find(manager, session_id)).id
        elif reach.key is not None:
            ref = reach.key
        else:
            return "Error: give the id of a conversation as 'session_id'."
        message = {"role": role, "content": content} | ({} if message_id is None else {"id": message_id})
        session = manager.session(ref)
        done = await session.append(message)
        stored = "Stored" if done.inserted else "There was already"
        return f"{stored} message {done.message.id!r} in conversation {session.id!r}."

    return Tool(
        name="append_message",
        description="Store a message at the end of a conversation. With the same message id, it is stored once.",
        parameters=schema(
            {
                "role": {"type": "string", "enum": ["user", "assistant"], "description": "Who said it."},
                "content": {"type": "string", "description": "What was said."},
            },
            {
                "session_id": {
                    "type": "string",
                    "description": "The id of the conversation; the current one if left out.",
                },
                "message_id": {"type": "string", "description": "An id of your own, so that a retry does nothing."},
            },
        ),
        run=run,
    )
