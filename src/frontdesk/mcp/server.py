"""The server of the protocol, over standard input and output or over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from frontdesk.errors import ConfigurationError, FrontdeskError
from frontdesk.http.listening import address_of, listen
from frontdesk.manager import SessionManager
from frontdesk.mcp.reach import Reach
from frontdesk.mcp.resources import Resources
from frontdesk.mcp.tools import build_tools

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_NOT_FOUND = -32002
"""the protocol's code for a resource that does not exist"""
_Context = ServerRequestContext[Any]


def create_server(manager: SessionManager, reach: Reach, *, read_only: bool = False) -> Server[Any]:
    """The server for the sessions within reach. The manager must be open while it runs."""
    tools = build_tools(manager, reach, read_only=read_only)
    resources = Resources(manager, reach)
    listed = [
        types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters)
        for tool in tools.values()
    ]

    async def list_tools(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            return _answer(f"Error: there is no tool {params.name!r:.80}.", is_error=True)
        try:
            text = await tool(**(params.arguments or {}))
        except FrontdeskError as error:
            return _answer(f"Error: {error}", is_error=True)
        return _answer(text, is_error=text.startswith("Error: "))

    async def list_resources(_: _Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return await resources.page(None if params is None else params.cursor)

    async def list_templates(
        _: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return resources.templates()

    async def read_resource(_: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            return await resources.read(str(params.uri))
        except FrontdeskError as error:
            raise MCPError(_NOT_FOUND, str(error)) from error

    return Server(
        "frontdesk",
        instructions="Conversations that were had before, and notes about them.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _answer(text: str, *, is_error: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over standard input and output, until it closes them."""
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def serve_http(
    server: Server[Any], host: str, port: int, *, on_listening: Callable[[str], None] | None = None
) -> None:
    """Serve over HTTP, at /mcp, until the process is asked to stop. `on_listening` is called with the address once
    connections are accepted. Raises `ConfigurationError` for an address that cannot be listened on, and unless `host`
    is a loopback address: nobody is asked for a key."""
    import uvicorn

    if host not in _LOOPBACK:
        raise ConfigurationError(f"MCP over HTTP asks for no key, so it listens on loopback only, not on {host!r}")
    app = server.streamable_http_app(host=host)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    with listen(host, port) as listener:
        if on_listening is not None:
            on_listening(f"{address_of(host, listener)}/mcp")
        await uvicorn.Server(config).serve(sockets=[listener])
