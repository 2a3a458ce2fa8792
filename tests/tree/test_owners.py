"""What a block belongs to, and what a fork takes along."""

from __future__ import annotations

import pytest

from frontdesk.store import NewSession, Owner, OwnerQuery, Scope, SessionRow
from frontdesk.tree.forks import forked_documents
from frontdesk.tree.owners import Key, is_of, matches, owner_of
from frontdesk.tree.sessions import new_row

ANA: Key = ("bot", "web", "ana", None)
WORK: Key = ("bot", "web", "ana", "work")
BEN: Key = ("bot", "web", "ben", None)
WIDE: list[tuple[str, Scope]] = [("memory", "guest"), ("house", "agent")]


def new(key: Key | None) -> NewSession:
    agent, channel, peer, thread = key or (None,) * 4
    return NewSession(namespace="ns", id="s", now=1, agent=agent, channel=channel, peer=peer, thread=thread)


def row(key: Key | None) -> SessionRow:
    return new_row(new(key), 1)


@pytest.mark.parametrize(
    ("scope", "owner"),
    [
        ("session", Owner("session", "s")),
        ("key", Owner("key", None, "bot", "web", "ana", "work")),
        ("guest", Owner("guest", None, "bot", "web", "ana")),
        ("agent", Owner("agent", None, "bot")),
        ("namespace", Owner("namespace")),
    ],
)
def test_an_owner_has_the_parts_of_the_key_that_its_scope_distinguishes(scope: Scope, owner: Owner) -> None:
    assert owner_of(scope, "s", WORK) == owner
    assert owner_of(scope, "s", None) == (owner if scope == "namespace" else Owner("session", "s"))
    assert is_of(row(WORK), "ns", owner)
    assert not is_of(row(WORK), "other", owner)


def test_an_erasure_means_no_owner_that_others_share() -> None:
    guest, agent = owner_of("guest", "s", ANA), owner_of("agent", "s", ANA)
    assert matches(guest, OwnerQuery(namespace="ns", agent="bot", channel="web", peer="ana"))
    assert not matches(guest, OwnerQuery(namespace="ns", agent="bot", channel="web", peer="ana", thread="work"))
    assert matches(owner_of("key", "s", WORK), OwnerQuery(namespace="ns", peer="ana"))
    assert not matches(agent, OwnerQuery(namespace="ns", agent="bot", peer="ana"))
    assert matches(agent, OwnerQuery(namespace="ns", agent="bot"))
    assert not matches(Owner("namespace"), OwnerQuery(namespace="ns"))


def test_a_fork_without_a_key_copies_what_its_source_shares() -> None:
    forked = forked_documents(row(ANA), new(None), WIDE, ["notes"])
    assert forked.copy == ((owner_of("guest", "s", ANA), "memory"), (owner_of("agent", "s", ANA), "house"))
    assert (forked.leave, forked.prompt, forked.add) == (("memory", "house"), True, ())
    assert forked_documents(row(None), new(None), WIDE, ["notes"]).leave == ()


def test_a_fork_for_another_guest_takes_no_wide_block_no_note_and_no_prompt() -> None:
    for source in (row(ANA), row(None)):
        forked = forked_documents(source, new(BEN), WIDE, ["notes"])
        assert (forked.copy, forked.leave, forked.prompt) == ((), ("memory", "house", "notes"), False)


def test_a_fork_for_the_same_guest_takes_the_prompt_if_it_has_the_same_blocks() -> None:
    assert forked_documents(row(ANA), new(WORK), WIDE, ["notes"]).prompt
    own_key: list[tuple[str, Scope]] = [*WIDE, ("desk", "key")]
    forked = forked_documents(row(ANA), new(WORK), own_key, ["notes"])
    assert (forked.leave, forked.prompt) == (("memory", "house", "desk"), False)
