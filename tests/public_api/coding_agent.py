"""A coding agent that works for 300 steps in a window of 16,000 tokens: at every step its model sees the task, the plan
and the last three results word for word, however long the conversation has become."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

from frontdesk import Session, SessionKey, SessionManager, Store, estimate_tokens
from tests.public_api.steps import call, result, user
from tests.waiting import eventually

WINDOW = 16_000
VIEW = 12_000
"""what is left for messages: the prompt, the tools and the answer need the rest"""
STEPS = 300
TASK = "TASK: move the billing module to the new ledger. Change nothing in /srv/legacy. " + "Mind the tests. " * 20
WISH = "And keep the public API of billing/invoice.py as it is."


async def summarise(prompt: str) -> str:
    return f"Work went on; {prompt.count('[tool result')} results were read."


def outputs(chance: random.Random) -> Iterator[str]:
    """Tool outputs of 50 to 6,000 tokens; long ones are rare, and never next to each other."""
    for step in range(STEPS):
        tokens = chance.randint(50, 500)
        if step % 4 == 3:
            tokens = chance.choice([800, 1_500, 3_000, 6_000])
        yield f"result {step}: " + " ".join(f"line{chance.randint(0, 999)}" for _ in range(tokens * 3 // 8))


def tokens_of(request: dict[str, Any]) -> int:
    """What a provider counts: the texts, the calls, the tools, and a few tokens for each message."""
    messages = sum(
        4 + estimate_tokens(message["content"] or "") + estimate_tokens(json.dumps(message.get("tool_calls", "")))
        for message in request["messages"]
    )
    return messages + estimate_tokens(json.dumps(request.get("tools", "")))


class ScriptedAgent:
    """A model in a loop, which checks what it is given at every step."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.plan = "PLAN 0: read, then write."
        self.requests = [TASK]
        self.results: list[str] = []

    async def run(self, chance: random.Random) -> None:
        await self.session.replace_context_block("plan", self.plan)
        await self.session.append(user("task", TASK))
        for step, output in enumerate(outputs(chance)):
            await self.look()
            if step == STEPS // 2:
                await self.session.append(user("wish", WISH))
                self.requests.append(WISH)
            if step % 60 == 30:
                self.plan = f"PLAN {step}: {step} results are in, go on with the next file."
                await self.session.replace_context_block("plan", self.plan)
            await self.session.append(call(f"c{step}", f"x{step}"))
            await self.session.append({**result(f"r{step}", f"x{step}"), "content": output})
            self.results.append(output)
            if (await self.session.info()).token_count > 2 * WINDOW:
                # Only a store that never lets other tasks run gets so far before the compaction in the background.
                await eventually(self.is_compacted)
        await self.look()

    async def is_compacted(self) -> bool:
        return not await self.session.needs_compaction()

    async def look(self) -> None:
        """What the model sees: a request of the window's size, with everything that it needs."""
        request: dict[str, Any] = {**await self.session.prepare("openai", max_tokens=VIEW)}
        assert tokens_of(request) <= WINDOW
        said = [message["content"] for message in request["messages"] if message["role"] == "user"]
        assert [text for text in said if text in (TASK, WISH)] == self.requests
        assert self.plan in json.dumps(request)
        read = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        assert read[-3:] == self.results[-3:]


class CodingAgentTests:
    async def test_a_coding_agent_always_sees_its_task_its_plan_and_its_last_results(
        self, store: Store, namespace: str
    ) -> None:
        failures: list[Exception] = []
        manager = (
            SessionManager(store, namespace=namespace)
            .with_context("plan", description="What to do next")
            .with_cached_prompt()
            .with_compaction(
                summarise, max_tokens=WINDOW, min_tail_messages=6, on_error=lambda _, error: failures.append(error)
            )
        )
        async with manager:
            session = manager.session(SessionKey("coder", "cli", "ana"))
            await asyncio.wait_for(ScriptedAgent(session).run(random.Random(16)), 300)
            info = await session.info()
        assert failures == []
        assert info.compaction_count >= 5
        assert info.message_count == 2 * STEPS + 2
