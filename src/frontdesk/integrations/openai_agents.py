"""Sessions for the OpenAI Agents SDK: `await Runner.run(agent, "Hi", session=FrontdeskSession(manager, "chat-1"))`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from frontdesk.errors import InvalidInputError
from frontdesk.extras import needs_extra
from frontdesk.integrations.pairs import with_calls
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import Message, NewMessage, formats, new_id
from frontdesk.session.session import Session

with needs_extra(__name__, "openai-agents"):
    from agents import ModelResponse, TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
    from agents.result import RunResultBase

_ID_PREFIX = "openai-agents-"
_SHAPE = "openai-responses"


class FrontdeskSession:
    """A session in the SDK's sense that stores its items in Frontdesk. Items come back exactly as they were added.

    `session` is the Frontdesk session: use it for branches, forks, search, compaction and context blocks. If it is
    compacted, `get_items` returns the summary in place of what it covers; the originals stay."""

    def __init__(
        self,
        manager: SessionManager,
        session_id: str | SessionKey,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = str(session_id)
        self.session_settings: SessionSettings | None = coerce_session_settings(session_settings or SessionSettings())
        self.session: Session = manager.session(session_id)
        self._manager = manager

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """What the model sees, oldest first: everything, or the newest `limit` items. A tool result is left out if the
        limit separates it from its call. Raises `InvalidInputError` for a negative limit."""
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most < 0:
            raise InvalidInputError(f"limit must not be negative: {most}")
        messages = [] if most == 0 else await self.session.history(last=most)
        return _to_items(messages if most is None else with_calls(messages))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items: all of them, or none."""
        if items:
            await self.session.append_all([_new_message(cast("dict[str, Any]", item)) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item and return it. Concurrent calls never return the same item. Of a message that another
        framework wrote, and that is several items here, all are deleted, and the last one is returned."""
        while (popped := await self.session.pop()) is not None:
            if items := _to_items([popped]):
                return items[-1]
        return None

    async def clear_session(self) -> None:
        """Delete all items."""
        await self.session.clear_messages()

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """With `{"force": True}`, compact now, with the summariser of `with_compaction`. The SDK also calls this after
        every run: then it does nothing, because Frontdesk compacts in the background."""
        if args and args.get("force"):
            await self.session.compact()

    async def record_usage(self, result: RunResultBase) -> None:
        """Add the model calls of a finished run to the usage ledger of the session. Calling it again for the same run
        counts nothing twice."""
        model = result.last_agent.model
        for response in result.raw_responses:
            usage = response.usage
            await self._manager.add_usage(
                self.session.id,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.input_tokens_details.cached_tokens or 0,
                reasoning_tokens=usage.output_tokens_details.reasoning_tokens or 0,
                model=model if isinstance(model, str) else getattr(model, "model", None),
                usage_id=_usage_id(response),
            )


def _usage_id(response: ModelResponse) -> str:
    """The id of a response. Not all models have them: then it gets one, which it keeps, since another response may be
    equal to it."""
    id: str = response.response_id or vars(response).setdefault("frontdesk_usage_id", new_id())
    return id


def _new_message(item: dict[str, Any]) -> NewMessage:
    """An item under an id of ours, since the SDK may add two items with the same id. One in no known format belongs to
    the assistant."""
    is_known = formats.recognise(item) is not None
    return NewMessage(item, id=_ID_PREFIX + new_id(), role=None if is_known else "assistant")


def _to_items(messages: Sequence[Message]) -> list[TResponseInputItem]:
    """Messages as input items. If another framework wrote one of them, all are rendered for this API, so that calls
    keep their results and authors their names; otherwise only summaries are, and all others are what was added."""
    if not all(message.is_summary or _is_item(message) for message in messages):
        return cast("list[TResponseInputItem]", formats.render(messages, _SHAPE))
    items: list[Any] = []
    for message in messages:
        items += formats.render([message], _SHAPE) if message.is_summary else [message.raw]
    return items


def _is_item(message: Message) -> bool:
    """Whether a message is an input item as it is: one that was added, or imported."""
    return message.id.startswith(_ID_PREFIX) or message.shape == _SHAPE
