"""Rendering blocks as a system prompt. Any function with the signature of `render_prompt` can replace it."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.context.blocks import BlockKind, ContextBlock

RULE = "═" * 46
_TAGS = {
    BlockKind.READONLY: "[readonly]",
    BlockKind.WRITABLE: "[writable]",
    BlockKind.SKILL: "[loadable]",
    BlockKind.SEARCHABLE: "[searchable]",
}


def render_prompt(blocks: Sequence[ContextBlock]) -> str:
    """Render blocks in their order, separated by blank lines: a rule, a header, a rule, the content.

    The header is `LABEL (description) [45% — 495/1100 tokens] [writable]`. Empty readonly blocks are left out. Other
    empty blocks are shown, so that the model knows that they exist. A rule inside a block's content is shortened, so
    that no content can pass for another block."""
    return "\n\n".join(_render(block) for block in blocks if block.content or block.kind is not BlockKind.READONLY)


def _render(block: ContextBlock) -> str:
    header = block.label.upper()
    if block.description:
        header += f" ({block.description})"
    if block.max_tokens is not None:
        header += f" [{usage(block.tokens, block.max_tokens)}]"
    content = block.content.replace(RULE, RULE[:3])
    return "\n".join(part for part in (RULE, f"{header} {_TAGS[block.kind]}", RULE, content) if part)


def usage(tokens: int, max_tokens: int) -> str:
    """`45% — 495/1100 tokens`."""
    return f"{round(100 * tokens / max_tokens)}% — {tokens}/{max_tokens} tokens"
