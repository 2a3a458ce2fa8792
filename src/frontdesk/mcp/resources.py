"""The resources of the protocol: conversations and context blocks, by address."""

from __future__ import annotations

from urllib.parse import quote, unquote

import mcp_types as types

from frontdesk.errors import InvalidInputError
from frontdesk.manager import SessionManager
from frontdesk.mcp.reach import Reach

_SCHEME = "frontdesk://sessions/"
_BLOCKS = "/blocks/"
_PAGE = 50
_SHOWN = 200
"""messages at the end of a conversation that its resource has"""


class Resources:
    """The conversations within reach, and their blocks."""

    def __init__(self, manager: SessionManager, reach: Reach) -> None:
        self._manager = manager
        self._reach = reach

    async def page(self, cursor: str | None) -> types.ListResourcesResult:
        page = await self._manager.list(**self._reach.filters, limit=_PAGE, cursor=cursor)  # type: ignore[arg-type]
        resources = [
            types.Resource(
                name=info.name or info.id,
                uri=_SCHEME + quote(info.id, safe=""),
                description=f"{info.message_count} messages, {info.status}",
                mime_type="text/plain",
            )
            for info in page
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=page.next_cursor)

    @staticmethod
    def templates() -> types.ListResourceTemplatesResult:
        session = types.ResourceTemplate(
            name="conversation",
            uri_template=_SCHEME + "{session_id}",
            description=f"The last {_SHOWN} messages of a conversation, as they were written.",
            mime_type="text/plain",
        )
        block = types.ResourceTemplate(
            name="context block",
            uri_template=_SCHEME + "{session_id}" + _BLOCKS + "{label}",
            description="The current text of a context block of a conversation.",
            mime_type="text/plain",
        )
        return types.ListResourceTemplatesResult(resource_templates=[session, block])

    async def read(self, uri: str) -> types.ReadResourceResult:
        """Raises `InvalidInputError` and `NotFoundError`."""
        if not uri.startswith(_SCHEME):
            raise InvalidInputError(f"{uri!r:.200} is not a resource: it begins with {_SCHEME}")
        path, found, label = uri.removeprefix(_SCHEME).partition(_BLOCKS)
        info = await self._reach.find(self._manager, unquote(path))
        session = self._manager.session(info.id)
        if found:
            text = (await session.context_block(unquote(label))).content
        else:
            last = [message async for message in session.transcript(limit=_SHOWN, reverse=True)]
            text = "\n\n".join(
                f"{message.role} ({message.created_at:%Y-%m-%d %H:%M}): {message.text}"
                for message in reversed(last)
                if message.role != "system"
            )
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[contents])
