"""Random histories of a namespace with everything that an export must hold, and what a user can see of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from frontdesk import NotFoundError, SessionKey, SessionManager
from frontdesk.errors import ConflictError, InvalidRangeError
from frontdesk.states.shelves import BlobRange


@dataclass
class Cart:
    items: int = 0


def configured(store: Any, namespace: str = "default") -> SessionManager:
    return (
        SessionManager(store, namespace=namespace)
        .with_context("notes")
        .with_context("memory", scope="guest")
        .with_context("house", scope="namespace")
        .with_cached_prompt()
    )


class Writer:
    """Makes random changes through the public API."""

    def __init__(self, manager: SessionManager, seed: int) -> None:
        self.manager = manager
        self.random = random.Random(seed)
        self.count = 0

    async def write(self, steps: int) -> None:
        await self.create()
        for _ in range(steps):
            step = self.random.choice(STEPS)
            try:
                await step(self)
            except (NotFoundError, InvalidRangeError, ConflictError):
                pass  # what it chose is not there, or not on one path

    async def create(self) -> None:
        self.count += 1
        key = SessionKey("desk", "web", f"guest {self.count % 3}", f"t{self.count}")
        await self.manager.create(
            f"Nr. {self.count}",
            id=f"s{self.count}: é/\x01",
            key=key if self.count % 2 else None,
            tags=["a", "b"],
            metadata={"n": self.count, "float": 1.10},
            model="gpt-5-mini",
        )

    async def some_id(self) -> str:
        ids = sorted([info.id async for info in self.manager.iterate()])
        return self.random.choice(ids) if ids else "nobody"

    async def some_message(self, session_id: str) -> str:
        leaves = await self.manager.session(session_id).leaves()
        if not leaves:
            return "nothing"
        leaf = self.random.choice(sorted(leaf.id for leaf in leaves))
        path = [message.id async for message in self.manager.session(session_id).transcript(leaf=leaf)]
        return self.random.choice(path)

    async def append(self) -> None:
        session_id = await self.some_id()
        for _ in range(self.random.randint(1, 4)):
            self.count += 1
            role = self.random.choice(["user", "assistant", "system"])
            raw = {"id": f"m{self.count}", "role": role, "content": f"said \u00e9 {self.count} \x00\u2028", "x": 1.50}
            await self.manager.append(session_id, raw, reopen=True)

    async def call(self) -> None:
        self.count += 1
        function = {"name": "look", "arguments": '{"a": 1}'}
        calls = [{"id": f"c{self.count}", "type": "function", "function": function}]
        session_id = await self.some_id()
        await self.manager.append(session_id, {"role": "assistant", "content": None, "tool_calls": calls}, reopen=True)
        await self.manager.append(session_id, {"role": "tool", "tool_call_id": f"c{self.count}", "content": "42"})

    async def branch(self) -> None:
        session_id = await self.some_id()
        self.count += 1
        parent = await self.some_message(session_id)
        message = {"id": f"m{self.count}", "role": "user", "content": f"branch {self.count}"}
        await self.manager.append(session_id, message, parent=parent, reopen=True)

    async def switch(self) -> None:
        session_id = await self.some_id()
        await self.manager.session(session_id).switch(await self.some_message(session_id))

    async def update(self) -> None:
        session_id = await self.some_id()
        self.count += 1
        changed = {"id": await self.some_message(session_id), "role": "user", "content": "changed " * (self.count % 5)}
        await self.manager.session(session_id).update_message(changed)

    async def delete_message(self) -> None:
        session_id = await self.some_id()
        await self.manager.delete_messages(session_id, [await self.some_message(session_id)])

    async def compact(self) -> None:
        session_id = await self.some_id()
        path = [message.id async for message in self.manager.session(session_id).transcript()]
        if len(path) > 2:
            first, last = sorted(self.random.sample(range(len(path)), 2))
            await self.manager.add_compaction(session_id, f"summary {self.count}", path[first], path[last])

    async def undo(self) -> None:
        session = self.manager.session(await self.some_id())
        for compaction in (await session.compactions())[:1]:
            await session.undo_compaction(compaction.id)

    async def fork(self) -> None:
        session_id = await self.some_id()
        self.count += 1
        at = await self.some_message(session_id) if self.random.random() < 0.5 else None
        await self.manager.fork(session_id, at, new_id=f"f{self.count}")

    async def change_blocks(self) -> None:
        session = self.manager.session(await self.some_id())
        label = self.random.choice(["notes", "memory", "house"])
        await session.append_context_block(label, f"line {self.count}", author="ann")
        await session.freeze_system_prompt()

    async def use(self) -> None:
        self.count += 1
        await self.manager.add_usage(
            await self.some_id(), input_tokens=self.count, cost="0.0010", model="m", usage_id=f"u{self.count}"
        )

    async def keep_state(self) -> None:
        self.count += 1
        carts = self.manager.states(Cart, name="carts", ttl=None)
        await carts.set(f"cart {self.count % 4}", Cart(self.count), owner=SessionKey("desk", "web", "guest 1"))

    async def shelve(self) -> None:
        self.count += 1
        shelves = self.manager.shelves("checkpoints")
        blobs = {b"%d \xff" % (self.count + n): bytes([n]) * self.random.randint(0, 50) for n in range(70)}
        owner = SessionKey("desk", "web", "guest 2") if self.count % 2 else None
        await shelves.write(f"thread {self.count % 3}", put=blobs, owner=owner, delete=[BlobRange(b"", b"2")])

    async def end(self) -> None:
        await self.random.choice([self.manager.archive, self.manager.suspend, self.manager.reset])(await self.some_id())

    async def delete(self) -> None:
        await self.manager.delete(await self.some_id())


STEPS = [
    *[Writer.append] * 4,
    *[Writer.branch, Writer.fork, Writer.compact, Writer.delete_message, Writer.update] * 2,
    *(Writer.create, Writer.call, Writer.switch, Writer.undo, Writer.change_blocks, Writer.use, Writer.keep_state),
    Writer.shelve,
    *(Writer.end, Writer.delete),
]


async def observe(manager: SessionManager) -> dict[str, Any]:
    """All that the public API shows of a namespace."""
    seen: dict[str, Any] = {"order": [info.id async for info in manager.iterate()]}
    for session_id in seen["order"]:
        session = manager.session(session_id)
        leaves = await session.leaves()
        seen[session_id] = {
            "history": await session.history(),
            "leaves": leaves,
            "paths": {leaf.id: [message async for message in session.transcript(leaf=leaf.id)] for leaf in leaves},
            "raw": {leaf.id: leaf.raw for leaf in leaves},
            "compactions": await session.compactions(),
            "blocks": await session.context_blocks(),
            "versions": [await session.block_history(label) for label in ("notes", "memory", "house")],
            "prompt": await session.freeze_system_prompt(),
            "usage": await manager.usage(session=session_id),
            "current": None if session.key is None else getattr(await manager.get(session.key), "id", None),
        }
        seen[session_id]["info"] = await session.info()
    carts = manager.states(Cart, name="carts", ttl=None)
    seen["states"] = [(info.id, info.version, await carts.get(info.id)) for info in await carts.list()]
    shelves = manager.shelves("checkpoints")
    seen["shelves"] = {id: await shelves.read(id, BlobRange(b"", b"\xff")) async for id in shelves.ids()}
    seen["totals"] = await manager.usage(by=("day", "model", "agent"))
    return seen
