"""Calls whose store fails now and then, and the comparison of what each of them reported (done, did not happen, or may
have happened) with what is stored afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import msgspec

from frontdesk import SessionManager
from frontdesk.errors import ConflictError, StoreError

SESSIONS = 4
KINDS = ("append", "append", "append_all", "turn", "state", "read")


class Count(msgspec.Struct):
    value: int = 0


@dataclass
class Outcomes:
    """What calls reported, by the texts of their messages. `order` has what each worker knows to be stored."""

    done: list[tuple[str, ...]] = field(default_factory=list)
    failed: list[tuple[str, ...]] = field(default_factory=list)
    uncertain: list[tuple[str, ...]] = field(default_factory=list)
    order: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)

    def mark(self) -> tuple[int, int, int]:
        """How much was reported until now. May be called by any thread."""
        return len(self.done), len(self.failed), self.counted["done"]

    def until(self, mark: tuple[int, int, int]) -> Outcomes:
        """What had been reported at a mark, without the order."""
        done, failed, counted = mark
        return Outcomes(self.done[:done], self.failed[:failed], counted=Counter(done=counted))

    def __str__(self) -> str:
        return f"{len(self.done)} done, {len(self.failed)} not, {len(self.uncertain)} uncertain"


async def work(manager: SessionManager, worker: int, calls: int, seed: int, seen: Outcomes) -> None:
    """Append, append several at once, append in turns, count in a state, and read, one call after the other."""
    random = Random(f"{seed} {worker}")
    for number in range(calls):
        session = random.randrange(SESSIONS)
        kind = random.choice(KINDS)
        size = random.randrange(2, 6) if kind == "append_all" else 1
        texts = tuple(f"{worker}-{number}-{index}" for index in range(size))
        messages = [{"role": "user", "content": f"{text} {'x' * random.choice((1, 2_000))}"} for text in texts]
        try:
            await _call(manager, f"s{session}", kind, messages)
        except ConflictError:
            if kind not in ("state", "read"):
                seen.failed.append(texts)
        except StoreError as error:
            if kind == "state":
                seen.counted["uncertain"] += error.uncertain
            elif kind == "turn":
                seen.uncertain.append(texts)  # taking or releasing the turn can fail as well
            elif kind == "read":
                seen.counted["uncertain reads"] += error.uncertain
            else:
                (seen.uncertain if error.uncertain else seen.failed).append(texts)
        else:
            if kind == "state":
                seen.counted["done"] += 1
            elif kind != "read":
                seen.done.append(texts)
                seen.order.setdefault((worker, session), []).extend(texts)


async def _call(manager: SessionManager, session: str, kind: str, messages: list[dict[str, str]]) -> None:
    handle = manager.session(session)
    if kind == "read":
        await handle.history(last=20)
    elif kind == "state":
        await manager.states(Count, ttl=None).update("counter", lambda count: Count(count.value + 1), create=True)
    elif kind == "turn":
        async with handle.turn(on_busy="reject") as turn:
            await turn.append(messages[0])
    else:
        await handle.append_all(messages)


async def check(manager: SessionManager, seen: Outcomes, *, complete: bool = True) -> None:
    """Compare what is stored with what calls reported. If they are not `complete`, there may have been others."""
    stored: set[str] = set()
    paths: dict[int, list[str]] = {}
    for session in range(SESSIONS):
        handle = manager.session(f"s{session}")
        paths[session] = [message.text.split(" ")[0] async for message in handle.transcript()]
        info = await manager.get(handle.id)
        assert (0 if info is None else info.message_count) == len(paths[session])
        for text in paths[session]:
            assert text not in stored, f"{text} is stored twice"
            stored.add(text)
    for texts in seen.done:
        assert stored.issuperset(texts), f"{texts} was acknowledged and is lost"
    for texts in seen.failed:
        assert stored.isdisjoint(texts), f"{texts} was reported as not stored, and is"
    for texts in seen.uncertain:
        assert len({text in stored for text in texts}) == 1, f"{texts} is stored in part"
    for (_, session), told in seen.order.items():
        assert [text for text in paths[session] if text in set(told)] == told
    assert not seen.counted["uncertain reads"], "a read changes nothing that may have happened"
    counter = await manager.states(Count, ttl=None).get("counter")
    assert seen.counted["done"] <= (0 if counter is None else counter.value)
    if complete:
        assert stored <= {text for texts in (*seen.done, *seen.uncertain) for text in texts}
        assert counter is None or counter.value <= seen.counted["done"] + seen.counted["uncertain"]
    appended = [
        event async for event in manager.events(after="start", follow=False) if event.kind == "message.appended"
    ]
    assert len(appended) == len({event.message_id for event in appended}) == len(stored)
