"""The tree of a session, as `show --tree` draws it: one line for each branch, under the one that it leaves.

Two paths of any length are compared by a binary search over their positions, so that long sessions cost little."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from frontdesk.cli.escaping import one_line
from frontdesk.cli.output import Cell

if TYPE_CHECKING:
    from frontdesk.cli.desk import Desk
    from frontdesk.messages import Message
    from frontdesk.session import Session

_MOST = 100
"""branches that are shown"""
_WIDTH = 70


class Branch(NamedTuple):
    """The messages from position `first` to the end of a path. `parent` is the index of the branch that they leave."""

    leaf: str
    first: int
    last: int
    parent: int | None
    begins: Message


async def show_tree(desk: Desk, session: Session) -> None:
    """Draw the branches of a session, that of the head first."""
    branches, left_out = await load_branches(session)
    head = await session.head()
    for index, branch in enumerate(branches):
        is_head = head is not None and branch.leaf == head.id
        if desk.out.json:
            values = branch._asdict() | {"begins": branch.begins.to_dict(), "head": is_head}
            desk.out.record(values)
            continue
        indent = "  " * _depth(branches, index)
        sign = "└ " if branch.parent is not None else ""
        desk.out.line(
            f"{indent}{sign}",
            Cell(f"{branch.first + 1:,} to {branch.last + 1:,}", "dim"),
            Cell(f"  {branch.begins.role}: ", "bold"),
            one_line(branch.begins.text, _WIDTH),
            Cell("  ← head" if is_head else "", "bold blue"),
            Cell(f"  {branch.leaf}", "dim"),
        )
    if left_out:
        desk.out.note(f"{left_out} more branches are not shown.")


def _depth(branches: list[Branch], index: int) -> int:
    parent = branches[index].parent
    return 0 if parent is None else 1 + _depth(branches, parent)


async def load_branches(session: Session) -> tuple[list[Branch], int]:
    """The branches, and how many were left out."""
    head = await session.head()
    leaves = [leaf.id for leaf in await session.leaves()]
    if head is not None:
        leaves = [head.id, *(leaf for leaf in leaves if leaf != head.id)]
    branches: list[Branch] = []
    for leaf in leaves[:_MOST]:
        length = await session.path_length(leaf)
        shared = [await _common(session, leaf, length, known) for known in branches]
        first = max(shared, default=0)
        if first == length:
            continue  # the head is in the middle of this path, or the path of the head continues
        parent = shared.index(first) if first else None
        begins = (await session.page(leaf=leaf, position=first, limit=1)).entries[0].message
        branches.append(Branch(leaf, first, length - 1, parent, begins))
    return branches, max(len(leaves) - _MOST, 0)


async def _common(session: Session, leaf: str, length: int, known: Branch) -> int:
    """How many messages two paths begin with that are the same."""
    low, high = 0, min(length, known.last + 1)
    while low < high:
        middle = (low + high) // 2
        ones, others = [
            (await session.page(leaf=each, position=middle, limit=1)).entries[0].message.id
            for each in (leaf, known.leaf)
        ]
        if ones == others:
            low = middle + 1
        else:
            high = middle
    return low
