"""A chat bot: streamed answers, tools, memory and compaction, with OpenAI or any server that has the same API.

    OPENAI_API_KEY=... python chat_bot.py ana

OPENAI_BASE_URL names another server, MODEL another model. `/new` starts a new conversation.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from openai import AsyncOpenAI, BadRequestError
from openai.lib.streaming.chat import ChatCompletionStreamState

from frontdesk import Session, SessionKey, SessionManager, Store
from frontdesk.models import openai

MODEL = os.environ.get("MODEL", "gpt-5-mini")


def open_manager(store: str | Store, namespace: str = "default") -> SessionManager:
    """How sessions of the bot work: what is in the prompt, what is remembered, and when to compact."""
    model = openai(MODEL)  # makes summaries and extracts facts; a small model is enough
    return (
        SessionManager(store, namespace=namespace)
        .with_context("soul", default_content="You are the concierge of a small hotel. Be brief.", readonly=True)
        .with_context("memory", description="Facts about the guest", max_tokens=1_100, scope="guest")
        .with_cached_prompt()
        .with_compaction(model)
        .with_memory_refresh(model)
    )


async def answer(session: Session, client: AsyncOpenAI, question: str) -> AsyncIterator[str]:
    """Append a question, stream the answer, and append it once, when it is complete."""
    async with session.turn() as turn:  # one worker at a time answers a conversation
        await turn.append({"role": "user", "content": question})
        while True:
            try:
                request = await turn.prepare("openai")
                stream = await client.chat.completions.create(model=MODEL, stream=True, **request)
            except BadRequestError as error:
                if await turn.on_overflow(error):  # the context was too long for the model, and is shorter now
                    continue
                raise
            state, shown = ChatCompletionStreamState(), ""
            try:
                async for chunk in stream:
                    state.handle_chunk(chunk)
                    text = chunk.choices[0].delta.content if chunk.choices else None
                    if text:
                        shown += text
                        yield text
                message = state.get_final_completion().choices[0].message
            except BaseException:  # the server stopped, or the guest left: what was shown was said
                if shown:
                    await turn.append({"role": "assistant", "content": shown, "metadata": {"cut_off": True}})
                raise
            await turn.append(message)
            if not message.tool_calls:
                return
            tools = await turn.tools()
            for call in message.tool_calls:
                if call.type == "function":
                    tool = tools.get(call.function.name)
                    result = await tool.call(call.function.arguments) if tool else "Error: there is no such tool."
                    await turn.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def main(guest: str) -> None:
    client = AsyncOpenAI()
    key = SessionKey("concierge", "terminal", guest)
    async with open_manager("sqlite:///chat.db") as manager:
        while question := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if question == "/new":
                await manager.new(key)
                continue
            async for text in answer(manager.session(key), client, question):
                print(text, end="", flush=True)
            print()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "guest"))
