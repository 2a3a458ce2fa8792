"""The tools that let a model use its context blocks. Descriptions name what is declared, never what is loaded now, so
that a provider's cache of the tool list keeps hitting."""

from __future__ import annotations

import re
from typing import Any

from frontdesk.calls import call
from frontdesk.context.blocks import BlockKind, ContextBlock, digest
from frontdesk.context.skills import LoadedSkills
from frontdesk.context.slots import Slot
from frontdesk.context.working import WorkingContext
from frontdesk.errors import BlockTooLargeError
from frontdesk.tools import Tool, schema

_SLUG = re.compile(r"[^a-z0-9]+")
_MAX_SLUG = 60


async def build_tools(context: WorkingContext, skills: LoadedSkills) -> dict[str, Tool]:
    """`update_context`, `load_context`, `unload_context` and `search_context`, each only where a block can use it."""
    slots = await context.slots()
    writable = [slot for slot in slots if slot.is_writable]
    loadable = [slot for slot in slots if slot.kind is BlockKind.SKILL]
    searchable = [slot for slot in slots if slot.kind is BlockKind.SEARCHABLE]
    tools = []
    if writable:
        tools.append(_update(context, writable))
    if loadable:
        tools += [_load(context, skills, loadable), _unload(skills, loadable)]
    if searchable:
        tools.append(_search(context, searchable))
    return {tool.name: tool for tool in tools}


def _update(context: WorkingContext, slots: list[Slot]) -> Tool:
    keyed = [slot.label for slot in slots if slot.is_keyed]
    optional: dict[str, dict[str, Any]] = {
        "action": {
            "type": "string",
            "enum": ["replace", "append"],
            "description": "Replace the whole block (the default) or add a line at its end.",
        }
    }
    if keyed:
        named = ", ".join(keyed)
        optional["title"] = {"type": "string", "description": f"A short title for the entry. Only for: {named}."}
        optional["description"] = {"type": "string", "description": f"One line on the entry. Only for: {named}."}

    async def run(
        label: str,
        content: str,
        action: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> str:
        if label in keyed:
            key = entry_key(title, content)
            await context.write_entry(label, key, content, description)
            return f'Stored "{key}" in {label}.'
        if action == "append":
            block = await context.append(label, content, "model")
        else:
            block = await context.replace(label, content, None, "model")
        return f"Written to {label}. Usage: {_usage(block)}"

    return Tool(
        name="update_context",
        description="Write to a block of your context. What you write is kept, and the prompt shows it from its next"
        " refresh on.\n" + "\n".join(_describe(slot) for slot in slots),
        parameters=schema({"label": _label(slots), "content": {"type": "string"}}, optional),
        run=run,
    )


def _load(context: WorkingContext, skills: LoadedSkills, slots: list[Slot]) -> Tool:
    async def run(label: str, key: str) -> str:
        slot = await context.slot(label)
        content = await call(slot.provider.load, key)
        if content is None:
            return f"Not found: {key!r}. What there is:\n{await call(slot.provider.get) or '(nothing)'}"
        limit = slot.declaration.max_tokens
        if limit is not None and (tokens := context.count(content)) > limit:
            raise BlockTooLargeError(label, tokens, limit)
        return await skills.load(label, key, content)

    return Tool(
        name="load_context",
        description="Read one entry of a loadable block in full.\n" + "\n".join(_describe(slot) for slot in slots),
        parameters=schema(
            {"label": _label(slots), "key": {"type": "string", "description": "As listed in the block."}}
        ),
        run=run,
    )


def _unload(skills: LoadedSkills, slots: list[Slot]) -> Tool:
    async def run(label: str, key: str) -> str:
        if await skills.unload(label, key):
            return f'Unloaded "{key}" from {label}. Context reclaimed.'
        loaded = ", ".join(await skills.loaded()) or "none"
        return f'Skill "{key}" is not currently loaded in "{label}". Loaded: {loaded}.'

    return Tool(
        name="unload_context",
        description="Drop an entry that you loaded and no longer need, to free its tokens.",
        parameters=schema({"label": _label(slots), "key": {"type": "string", "description": "As it was loaded."}}),
        run=run,
    )


def _search(context: WorkingContext, slots: list[Slot]) -> Tool:
    async def run(label: str, query: str) -> str:
        slot = await context.slot(label)
        found = await call(slot.provider.search, query)
        return str(found) if found else "No results found."

    return Tool(
        name="search_context",
        description="Search a block that is too large to be shown.\n" + "\n".join(_describe(slot) for slot in slots),
        parameters=schema({"label": _label(slots), "query": {"type": "string", "description": "In plain words."}}),
        run=run,
    )


def entry_key(title: str | None, content: str) -> str:
    """The key of an entry: its title as a slug, with a hash where a slug alone could meet another title's."""
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


def _label(slots: list[Slot]) -> dict[str, Any]:
    return {"type": "string", "enum": [slot.label for slot in slots], "description": "Which block."}


def _describe(slot: Slot) -> str:
    declaration = slot.declaration
    about = f": {declaration.description}" if declaration.description else ""
    reach = "shared by all conversations" if declaration.shared else "this conversation's"
    where = f"{slot.kind}, {reach}" if slot.provider is None else str(slot.kind)
    limit = f", at most {declaration.max_tokens} tokens" if declaration.max_tokens is not None else ""
    return f"- {slot.label} ({where}{limit}){about}"
