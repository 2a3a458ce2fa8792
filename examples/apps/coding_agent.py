"""A coding agent: it works on the files of a folder until its task is done, with Anthropic's API.

    ANTHROPIC_API_KEY=... python coding_agent.py "Make the tests pass"

Its session is one conversation in `agent.db`. Stop it at any time and start it again: it continues.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic

from frontdesk import Session, SessionManager, Tool
from frontdesk.models import anthropic

MODEL = os.environ.get("MODEL", "claude-sonnet-5")
INSTRUCTIONS = """You are a careful programmer. Write your plan into the block `plan` before you begin, and keep it
up to date. Look at files before you change them. When the task is done, say so in one sentence."""


def open_manager(store: str, window: int = 200_000) -> SessionManager:
    """The plan is a block of the prompt, so that no compaction can lose it."""
    return (
        SessionManager(store)
        .with_context("instructions", default_content=INSTRUCTIONS, readonly=True)
        .with_context("plan", description="Your plan, with what is done", max_tokens=800)
        .with_cached_prompt()
        .with_compaction(anthropic(MODEL), max_tokens=window)
    )


def file_tools(folder: Path) -> dict[str, Tool]:
    """Tools of your own: an async function each, and a JSON schema."""

    def inside(path: str) -> Path:
        found = (folder / path).resolve()
        if not found.is_relative_to(folder.resolve()):
            raise ValueError(f"{path} is outside the folder")
        return found

    async def read_file(path: str) -> str:
        return inside(path).read_text()

    async def write_file(path: str, content: str) -> str:
        inside(path).write_text(content)
        return f"{path} has {len(content)} characters now."

    async def run_tests() -> str:
        # -B: a compiled file that was written in the same second as an edit would hide that edit.
        command = [sys.executable, "-B", "-m", "unittest", "-q"]
        done = await asyncio.to_thread(subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False)
        return f"exit code {done.returncode}\n{done.stdout}{done.stderr}"

    def arguments(*names: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}

    tools = (
        Tool("read_file", "Read a file.", arguments("path"), read_file),
        Tool("write_file", "Write a file.", arguments("path", "content"), write_file),
        Tool("run_tests", "Run the tests.", arguments(), run_tests),
    )
    return {tool.name: tool for tool in tools}


async def work(session: Session, client: AsyncAnthropic, folder: Path, task: str | None) -> str:
    """Work on a task (None: continue with the one under way) until the model says that it is done."""
    async with session.turn() as turn:
        if task is not None:
            await turn.append({"role": "user", "content": task})
        elif await turn.head() is None:
            return "There is no task yet."
        tools = file_tools(folder) | await turn.tools()
        while True:
            request = await turn.prepare("anthropic", tools=tools)
            answer = await client.messages.create(model=MODEL, max_tokens=4_000, **request)
            await turn.append(answer)
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in answer.content if block.type == "text")
            results: list[dict[str, str]] = []
            for call in calls:
                tool = tools.get(call.name)
                result = await tool.call(call.input) if tool else "Error: there is no such tool."
                results.append({"type": "tool_result", "tool_use_id": call.id, "content": result})
            await turn.append({"role": "user", "content": results})


async def main(task: str | None) -> None:
    async with open_manager("sqlite:///agent.db") as manager, AsyncAnthropic() as client:
        print(await work(manager.session("task"), client, Path.cwd(), task))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
