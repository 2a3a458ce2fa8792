"""Context blocks with their versions, and the system prompt."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from starlette.responses import Response

from frontdesk.context.blocks import BlockVersion, ContextBlock
from frontdesk.errors import BlockVersionError
from frontdesk.http.addresses import read_id
from frontdesk.server.access import CallerAccess
from frontdesk.server.bodies import AppendBlockBody, BlockBody, Deleted, ItemList, OnePrompt, PromptBody, RestoreBody
from frontdesk.server.problems import failure
from frontdesk.server.routes.parts import AccessOf, Label, SessionOf, router, words
from frontdesk.server.versions import if_match, tag
from frontdesk.server.wire import answer
from frontdesk.session import Session

routes = router("context")


def entry_key(key: Annotated[str, Path(description="the key of an entry, percent-encoded")]) -> str:
    return read_id(key)


EntryKey = Annotated[str, Depends(entry_key)]


@routes.get("/sessions/{ref}/blocks", response_model=ItemList[ContextBlock], description=words(Session.context_blocks))
async def list_blocks(session: SessionOf) -> Response:
    return answer({"items": await session.context_blocks()})


@routes.get("/sessions/{ref}/blocks/{label}", response_model=ContextBlock, description=words(Session.context_block))
async def get_block(session: SessionOf, label: Label) -> Response:
    return _block(await session.context_block(label))


@routes.put(
    "/sessions/{ref}/blocks/{label}",
    response_model=ContextBlock,
    description=words(Session.replace_context_block) + "\n\n`If-Match` is the ETag of the version to replace.",
)
async def replace_block(
    request: Request, access: AccessOf, session: SessionOf, label: Label, body: BlockBody
) -> Response:
    await _check(access, session, label)
    version = if_match(request)
    try:
        return _block(await session.replace_context_block(label, body.text, if_version=version, author=body.author))
    except BlockVersionError as error:
        return failure(error, request.state.request_id, status=412)


@routes.post(
    "/sessions/{ref}/blocks/{label}/append",
    response_model=ContextBlock,
    description=words(Session.append_context_block),
)
async def append_to_block(access: AccessOf, session: SessionOf, label: Label, body: AppendBlockBody) -> Response:
    await _check(access, session, label)
    block = await session.append_context_block(label, body.text, author=body.author, made_from=body.made_from)
    return _block(block)


@routes.get(
    "/sessions/{ref}/blocks/{label}/versions",
    response_model=ItemList[BlockVersion],
    description=words(Session.block_history),
)
async def list_versions(access: AccessOf, session: SessionOf, label: Label) -> Response:
    await _check(access, session, label)
    return answer({"items": await session.block_history(label)})


@routes.delete(
    "/sessions/{ref}/blocks/{label}/versions",
    response_model=dict[str, Any],
    description=words(Session.forget_block_history),
)
async def forget_versions(access: AccessOf, session: SessionOf, label: Label) -> Response:
    await _check(access, session, label)
    await session.forget_block_history(label)
    return answer({})


@routes.post(
    "/sessions/{ref}/blocks/{label}/restore",
    response_model=ContextBlock,
    description=words(Session.restore_context_block),
)
async def restore_block(access: AccessOf, session: SessionOf, label: Label, body: RestoreBody) -> Response:
    await _check(access, session, label)
    return _block(await session.restore_context_block(label, body.version, author=body.author))


@routes.get(
    "/sessions/{ref}/blocks/{label}/sharing", response_model=dict[str, int], description=words(Session.count_sharing)
)
async def count_sharing(access: AccessOf, session: SessionOf, label: Label, most: int = 1000) -> Response:
    await _check(access, session, label)
    return answer({"sessions": await session.count_sharing(label, most=most)})


@routes.delete(
    "/sessions/{ref}/blocks/{label}/entries/{key}",
    response_model=Deleted,
    description=words(Session.remove_context_entry),
)
async def remove_entry(access: AccessOf, session: SessionOf, label: Label, key: EntryKey) -> Response:
    await _check(access, session, label)
    return answer({"deleted": await session.remove_context_entry(label, key)})


@routes.get("/sessions/{ref}/prompt", response_model=OnePrompt, description=words(Session.prompt))
async def read_prompt(session: SessionOf) -> Response:
    return answer({"prompt": await session.prompt()})


@routes.put("/sessions/{ref}/prompt", response_model=dict[str, Any], description=words(Session.set_system_prompt))
async def set_system_prompt(session: SessionOf, body: PromptBody) -> Response:
    await session.set_system_prompt(body.text)
    return answer({})


@routes.post(
    "/sessions/{ref}/prompt/freeze", response_model=dict[str, str], description=words(Session.freeze_system_prompt)
)
async def freeze_prompt(session: SessionOf) -> Response:
    return answer({"text": await session.freeze_system_prompt()})


@routes.post(
    "/sessions/{ref}/prompt/refresh", response_model=dict[str, str], description=words(Session.refresh_system_prompt)
)
async def refresh_prompt(session: SessionOf) -> Response:
    return answer({"text": await session.refresh_system_prompt()})


@routes.get(
    "/sessions/{ref}/context-changes", response_model=dict[str, Any], description=words(Session.context_changes)
)
async def read_context_changes(session: SessionOf) -> Response:
    return answer({"message": await session.context_changes()})


def _block(block: ContextBlock) -> Response:
    return answer(block, headers={"ETag": tag(block.version)})


async def _check(access: CallerAccess, session: Session, label: str) -> None:
    """A restricted caller neither writes a block that others share, nor reads its history. Raises `RefusedError`."""
    if access.bounds:
        access.check_block(await session.context_block(label))
