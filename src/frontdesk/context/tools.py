"""The tools with which a model uses its context blocks.

Their descriptions depend only on the declarations, never on what is loaded, so that the provider's prompt cache stays
valid."""

from __future__ import annotations

import re
from typing import Any

from frontdesk.calls import call
from frontdesk.context.blocks import BlockKind, ContextBlock, digest
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.context.skills import LoadedSkills, Unloaded
from frontdesk.context.sources import BlockSource
from frontdesk.errors import BlockTooLargeError
from frontdesk.store import Scope
from frontdesk.tools import Tool, schema

UPDATE = "update_context"
"""the name of the tool that writes blocks"""
_SLUG = re.compile(r"[^a-z0-9]+")
_MAX_SLUG = 60
_UNLOADED: dict[Unloaded, str] = {
    "removed": "Context reclaimed.",
    "pending": "Its text will be left out when the result that contains it is stored.",
    "missing": "Its text was not found in the conversation any more, so no context was reclaimed.",
}
_REACH: dict[Scope, str] = {
    "session": "this conversation's",
    "key": "kept for later conversations here",
    "guest": "kept for later conversations with this user",
    "agent": "shared by all conversations with this assistant",
    "namespace": "shared by all conversations",
}


async def build_tools(blocks: SessionBlocks, skills: LoadedSkills) -> dict[str, Tool]:
    """`update_context`, `load_context`, `unload_context` and `search_context`, each only where a block can use it."""
    sources = await blocks.sources()
    writable = [source for source in sources if source.is_writable]
    loadable = [source for source in sources if source.kind is BlockKind.SKILL]
    searchable = [source for source in sources if source.kind is BlockKind.SEARCHABLE]
    tools = []
    if writable:
        tools.append(_update(blocks, writable))
    if loadable:
        tools += [_load(blocks, skills, loadable), _unload(skills, loadable)]
    if searchable:
        tools.append(_search(blocks, searchable))
    return {tool.name: tool for tool in tools}


def _update(blocks: SessionBlocks, sources: list[BlockSource]) -> Tool:
    keyed = [source.label for source in sources if source.is_keyed]
    optional: dict[str, dict[str, Any]] = {
        "action": {
            "type": "string",
            "enum": ["replace", "append"],
            "description": "Replace the whole block (the default) or add a line at its end.",
        }
    }
    if keyed:
        labels = ", ".join(keyed)
        optional["title"] = {"type": "string", "description": f"A short title for the entry. Only for: {labels}."}
        optional["description"] = {"type": "string", "description": f"One line on the entry. Only for: {labels}."}

    async def run(
        label: str,
        content: str,
        action: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> str:
        if label in keyed:
            key = entry_key(title, content)
            await blocks.write_entry(label, key, content, description)
            return f'Stored "{key}" in {label}.'
        if action == "append":
            block = await blocks.append(label, content, "model")
        else:
            block = await blocks.replace(label, content, None, "model")
        return f"Written to {label}. Usage: {_usage(block)}"

    return Tool(
        name=UPDATE,
        description="Write to a block of your context. What you write is saved, and appears in the prompt from its next"
        " refresh on.\n" + "\n".join(_describe(source) for source in sources),
        parameters=schema({"label": _label(sources), "content": {"type": "string"}}, optional),
        run=run,
    )


def _load(blocks: SessionBlocks, skills: LoadedSkills, sources: list[BlockSource]) -> Tool:
    async def run(label: str, key: str) -> str:
        source = await blocks.source(label)
        content = await call(source.provider.load, key)
        if content is None:
            return f"Not found: {key!r}. Available:\n{await call(source.provider.get) or '(nothing)'}"
        limit = source.declaration.max_tokens
        if limit is not None and (tokens := blocks.count(content)) > limit:
            raise BlockTooLargeError(label, tokens, limit)
        return await skills.load(label, key, content)

    return Tool(
        name="load_context",
        description="Read one entry of a loadable block in full.\n"
        + "\n".join(_describe(source) for source in sources),
        parameters=schema(
            {"label": _label(sources), "key": {"type": "string", "description": "As listed in the block."}}
        ),
        run=run,
    )


def _unload(skills: LoadedSkills, sources: list[BlockSource]) -> Tool:
    async def run(label: str, key: str) -> str:
        done = await skills.unload(label, key)
        if done != "not loaded":
            return f'Unloaded "{key}" from {label}. {_UNLOADED[done]}'
        loaded = ", ".join(await skills.loaded()) or "none"
        return f'Skill "{key}" is not currently loaded in "{label}". Loaded: {loaded}.'

    return Tool(
        name="unload_context",
        description="Drop an entry that you loaded and no longer need, to free its tokens.",
        parameters=schema({"label": _label(sources), "key": {"type": "string", "description": "As it was loaded."}}),
        run=run,
    )


def _search(blocks: SessionBlocks, sources: list[BlockSource]) -> Tool:
    async def run(label: str, query: str) -> str:
        source = await blocks.source(label)
        found = await call(source.provider.search, query)
        return str(found) if found else "No results found."

    return Tool(
        name="search_context",
        description="Search a block that is too large to be shown.\n"
        + "\n".join(_describe(source) for source in sources),
        parameters=schema({"label": _label(sources), "query": {"type": "string", "description": "In plain words."}}),
        run=run,
    )


def entry_key(title: str | None, content: str) -> str:
    """The key of an entry: its title as a slug, with a hash if other titles could have the same slug."""
    slug = _slug(title or content[:200])[:_MAX_SLUG]
    if title and title.strip().lower().replace(" ", "-") == slug:
        return slug
    return f"{slug[:40]}-{digest(title or content)[:10]}".strip("-")


def _slug(text: str) -> str:
    return _SLUG.sub("-", text.lower()).strip("-")[:_MAX_SLUG].strip("-")


def _usage(block: ContextBlock) -> str:
    if block.max_tokens is None:
        return f"{block.tokens} tokens"
    return f"{round(100 * block.tokens / block.max_tokens)}% ({block.tokens}/{block.max_tokens} tokens)"


def _label(sources: list[BlockSource]) -> dict[str, Any]:
    return {"type": "string", "enum": [source.label for source in sources], "description": "Which block."}


def _describe(source: BlockSource) -> str:
    declaration = source.declaration
    about = f": {declaration.description}" if declaration.description else ""
    reach = _REACH[declaration.scope]
    where = f"{source.kind}, {reach}" if source.provider is None else str(source.kind)
    limit = f", at most {declaration.max_tokens} tokens" if declaration.max_tokens is not None else ""
    return f"- {source.label} ({where}{limit}){about}"
