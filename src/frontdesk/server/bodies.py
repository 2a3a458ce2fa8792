"""The bodies and answers of requests that are not records of the API. Their fields are the parameters of the
calls in Python."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from frontdesk.messages import Message
from frontdesk.server.keys import ApiKey, Role
from frontdesk.session.records import Prompt

T = TypeVar("T")


class KeyParts(BaseModel):
    """A session key by its parts."""

    model_config = ConfigDict(extra="forbid")

    agent: str
    channel: str
    peer: str
    thread: str | None = None


KeyGiven = Annotated[KeyParts | str, Field(description="a key: its parts, or its text agent:channel:peer[:thread]")]


class Body(BaseModel):
    """A body. A field that is not known is refused: it is probably misspelled."""

    model_config = ConfigDict(extra="forbid")

    def given(self, *names: str) -> dict[str, Any]:
        """The fields with these names that the caller sent, including those that are null."""
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


class NewSessionBody(Body):
    name: str = ""
    id: str | None = None
    key: KeyGiven | None = None
    parent: str | None = None
    model: str | None = None
    source: str | None = None
    max_tokens: int | None = None
    tags: list[str] = []
    metadata: dict[str, Any] | None = None


class SessionChanges(Body):
    """What to change; fields that are not sent stay as they are. Thresholds are in seconds; null means never, and
    "default" that of the manager."""

    name: str | None = None
    summary: str | None = None
    metadata: dict[str, Any] | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []
    idle_after: float | str | None = None
    archive_after: float | str | None = None
    delete_after: float | str | None = None


class ForkBody(Body):
    at: str | None = None
    name: str | None = None
    new_id: str | None = None
    key: KeyGiven | None = None


class SplitBody(Body):
    summary: str | None = None
    name: str | None = None
    on_busy: str = "wait"
    wait: float | None = None


class NewBody(Body):
    key: KeyGiven
    on_busy: str = "wait"
    wait: float | None = None


class MessageBody(Body):
    """A message in any format that `append` takes. `id`, `role` and `text` override what would be derived from it, and
    so does `created_at`, a time in ISO 8601."""

    message: Any
    id: str | None = None
    role: str | None = None
    text: str | None = None
    created_at: str | None = None


class AppendBody(MessageBody):
    """A message to append. Without `parent` it follows the head; null starts a new root."""

    parent: str | None = None
    expected_head: str | None = None
    reopen: bool = False


class MessageListBody(Body):
    """Messages, or `new_messages`, each with what overrides that which would be derived from it."""

    messages: list[Any] = []
    new_messages: list[MessageBody] = []


class AppendAllBody(MessageListBody):
    parent: str | None = None
    expected_head: str | None = None
    reopen: bool = False


class UpdateBody(Body):
    """A message. Its id is that of the path."""

    message: Any
    role: str | None = None
    text: str | None = None
    created_at: str | None = None


class UpsertBody(UpdateBody):
    reopen: bool = False


class DeleteMessagesBody(Body):
    ids: list[str]
    expected_head: str | None = None


class HeadBody(Body):
    expected_head: str | None = None


class ReplaceMessagesBody(MessageListBody):
    expected_head: str | None = None


class SwitchBody(Body):
    leaf: str | None
    expected_head: str | None = None


class ToolDefinition(Body):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]


class PrepareBody(Body):
    """`tools` are those of the session (true), none (false), or these."""

    format: str
    max_tokens: int | None = None
    tools: bool | list[ToolDefinition] = True
    cache: bool = True
    notes: str = "user"
    alternate: bool = False


class CompactionBody(Body):
    summary: str
    from_id: str
    to_id: str


class CompactBody(Body):
    instructions: str | None = None
    prompt: str | None = None


class BlockBody(Body):
    text: str
    author: str | None = None


class AppendBlockBody(BlockBody):
    made_from: list[str] = []


class RestoreBody(Body):
    version: int
    author: str | None = None


class PromptBody(Body):
    text: str


class UsageBody(Body):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: str | int | float = 0
    model: str | None = None
    usage_id: str | None = None
    at: str | None = None


class StateBody(Body):
    """A state. `ttl` is in seconds; null means that it never expires."""

    value: Any
    ttl: float | None = None
    usual_ttl: Annotated[float | None, Field(description="that of a state that is created without `ttl`")] = None
    owner: KeyGiven | None = None


class EraseBody(Body):
    key: KeyGiven | None = None
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    author: str | None = None


class ToolBody(Body):
    """A call of a tool, by its arguments, or by the text that the model wrote. `scope` is that of `tools`: a name, or
    filters; null leaves out the tools that search other conversations."""

    arguments: dict[str, Any] | str = {}
    scope: str | dict[str, Any] | None = "guest"
    created_at: Annotated[str | None, Field(description="as the list of tools has it: only for this session")] = None


class ManagerToolBody(Body):
    arguments: dict[str, Any] | str = {}
    scope: str | dict[str, Any]
    max_tokens: int | None = None


class ContextUsageBody(Body):
    tools: list[dict[str, Any]] = []


class TakeTurnBody(Body):
    """`holder` names the caller, and is the same while it waits. A turn lasts `ttl` seconds, and is renewed by the
    caller. With `keeps_place`, a caller that asks again within 10 seconds keeps its place in the queue. `wait` is at
    most 30 seconds."""

    holder: str
    wait: float = 0.0
    ttl: float = 30.0
    on_busy: str = "wait"
    new_message: MessageBody | None = None
    keeps_place: bool = False


class TurnSplitBody(Body):
    summary: str | None = None
    name: str | None = None


class RenewTurnBody(Body):
    ttl: float


class ForgetStateStoreBody(Body):
    url: str


# answers


class ServerInfo(BaseModel):
    """A server as one caller sees it. `namespace` is that of the caller, who may choose among `namespaces`. `store` is
    the name that people know the store by. `compacts_at` is the share of a window at which a compaction starts, and
    `position` where the change log is now."""

    name: str
    version: str
    namespace: str
    namespaces: list[str]
    store: str
    role: Role
    key: ApiKey | None
    compacts_at: float
    position: str


class TakenTurn(BaseModel):
    """The number of a turn, and its session; both null if the message was queued for the holder."""

    session_id: str | None
    number: int | None


class HeldTurn(BaseModel):
    held: bool


class ToolAnswer(BaseModel):
    text: str


class ItemList(BaseModel, Generic[T]):
    items: list[T]


class Messages(BaseModel):
    messages: list[Message]


class OneMessage(BaseModel):
    message: Message | None


class WholeMessage(BaseModel):
    """A message with what was appended, exactly; the format of that, and its plain text."""

    message: Message
    raw: Any
    shape: str | None
    text: str


class Deleted(BaseModel):
    deleted: bool


class DeletedCount(BaseModel):
    deleted: int


class Count(BaseModel):
    count: int


class OnePrompt(BaseModel):
    prompt: Prompt | None


class Problem(BaseModel):
    """An error (RFC 9457). `outcome` says whether the call was refused, did not happen, or may have happened."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    outcome: str
    details: dict[str, Any]
    request_id: str
