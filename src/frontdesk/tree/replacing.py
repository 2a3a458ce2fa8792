"""Pure: the plan that makes a list of messages all that a session has. What the list begins with and the session has
already is kept; the rest of the session is removed, and the rest of the list is appended, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Append, EditItem, Item, Place, Plan, Span
from frontdesk.tree import edits, plans
from frontdesk.tree.append import check_writable
from frontdesk.tree.items import first_items
from frontdesk.tree.sharing import guard
from frontdesk.tree.tree import Tree


def is_unchanged(old: StoredMessage, new: StoredMessage, *, fresh: bool, given: Collection[str]) -> bool:
    """Whether a message of the list is the stored one: its content and its id are the same.

    One without an id of its own (`fresh`) is the same if its content is, unless the id of the stored one is among those
    that were `given` for other messages."""
    has_id = old.id not in given if fresh else old.id == new.id
    return has_id and (old.raw, old.role, old.derived) == (new.raw, new.role, new.derived)


def places_beyond(tree: Tree, path: Sequence[Item], kept: int) -> list[Place]:
    """All that the session sees, on any branch, but the first `kept` messages of the path to its head."""
    staying = {place for item in first_items(path, kept) for place in _places(item)}
    seen = (item for segment in tree.visible_segments() for item in tree.segment_items(segment.number))
    return [place for item in seen for place in _places(item) if place not in staying]


def needs_family(tree: Tree, removed: Sequence[Place], *, all_go: bool) -> bool:
    """Whether the plan must know what other sessions see, and does not."""
    return not tree.rows.sessions and bool(removed) and (all_go or edits.touches_others(tree, removed))


def replace_all(tree: Tree, removed: Mapping[Place, str], request: Append, *, all_go: bool) -> Plan | None:
    """Remove messages (with these ids) and append others; None if there is nothing to do. Raises `SessionEndedError`.

    `all_go`: nothing is kept, so that the session starts with an empty tree. An overlay goes with the first message
    that is removed from its range: what is shown is the list."""
    if not removed and not request.messages:
        return None
    if request.messages:
        check_writable(tree.session, reopen=request.reopen)
    now = request.now
    if not removed:
        plan = Plan(guards=guard(tree.session), now=now)
    elif all_go:
        plan = replace(plans.clear_messages(tree.rows, now), drop_prompt=False)
    else:
        plan = edits.delete_messages(tree, list(removed), now, removed, drop_overlays=True)
    return replace(plan, head=tree.session.head, append=request if request.messages else None)


def _places(item: Item) -> Iterator[Place]:
    if isinstance(item, Span):
        yield from (Place(item.segment, position) for position in range(item.first, item.last + 1))
    elif isinstance(item, EditItem):
        yield item.place
