"""Context blocks: the labelled parts of the system prompt that a model reads and, if allowed, writes."""

from frontdesk.context.blocks import BlockKind, BlockVersion, ContextBlock
from frontdesk.context.entries import StoreSearch
from frontdesk.context.prompt import render_prompt
from frontdesk.context.providers import (
    CallableProvider,
    FileProvider,
    Provider,
    SearchProvider,
    SkillDirectory,
    SkillProvider,
    WritableProvider,
)

__all__ = [
    "BlockKind",
    "BlockVersion",
    "CallableProvider",
    "ContextBlock",
    "FileProvider",
    "Provider",
    "SearchProvider",
    "SkillDirectory",
    "SkillProvider",
    "StoreSearch",
    "WritableProvider",
    "render_prompt",
]
