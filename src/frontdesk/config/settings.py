"""All settings of a manager with their defaults: plain values that can be printed.

Tasks, hooks, caches and the clock are in `runtime`. Each feature decides what its settings mean.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from frontdesk.checks import check_count, check_flags, check_numbers, check_text
from frontdesk.config.scopes import SearchScope
from frontdesk.errors import ConfigurationError, InvalidInputError
from frontdesk.messages.ids import check_id
from frontdesk.messages.stored import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.messages.tokens import TokenCounter, estimate_tokens
from frontdesk.store import NEVER, Scope
from frontdesk.store.changes import RESERVED_PREFIX

T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T]
Model: TypeAlias = Callable[[str], Maybe[str]]
"""prompt -> text; sync or async"""
Sink: TypeAlias = Callable[[str, list[str]], Any]
"""(session id, facts) -> anything; sync or async"""
Planner: TypeAlias = Callable[..., tuple[int, int] | None]
"""see `frontdesk.compaction.plan`"""
Renderer: TypeAlias = Callable[[Sequence[Any]], str]
"""context blocks -> system prompt"""
Embed: TypeAlias = Callable[[list[str]], Maybe[Sequence[Sequence[float]]]]
"""texts -> vectors, one for each in the same order; sync or async"""
OnError: TypeAlias = Callable[[str, Exception], Any]
"""(session id, error) -> anything; sync or async"""
Strategy = Literal["summarize", "truncate", "hybrid"]

KEY_PARTS = ("agent", "channel", "peer", "thread")
SYSTEM_LABEL = "system"
MAX_DIMENSIONS = 16_000
ANSWER_TOKENS = 2_000
"""the default limit for a search result about other conversations"""
MIN_ANSWER_TOKENS = 200


class PromptStore(Protocol):
    """Stores a text for each session of each namespace; `set(..., None)` deletes it. Methods may be sync or async.

    Workers share a prompt as soon as this store makes it visible to all of them."""

    def get(self, namespace: str, session_id: str) -> Maybe[str | None]: ...

    def set(self, namespace: str, session_id: str, text: str | None) -> Maybe[None]: ...


@dataclass(frozen=True, slots=True)
class HistorySearch:
    """The provider of a block that searches other conversations, as `with_searchable_history` declares it."""

    scope: SearchScope
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """A block declared by `with_context`. `provider` is an object, a factory `(session_id, key) -> provider`, or
    None."""

    label: str
    description: str | None = None
    default_content: str = ""
    max_tokens: int | None = None
    readonly: bool = False
    scope: Scope = "session"
    provider: Any = None

    def __post_init__(self) -> None:
        check_id(self.label, "label")
        check_text(self.default_content, "default_content")
        if self.description is not None:
            check_text(self.description, "description")
        check_count(self.max_tokens, "max_tokens")
        check_flags(readonly=self.readonly)
        if any(not character.isprintable() for character in self.label + (self.description or "")):
            raise ConfigurationError(
                f"label and description of block {self.label!r} must be one line of printable text"
            )
        if self.label == SYSTEM_LABEL or self.label.startswith(RESERVED_PREFIX):
            raise ConfigurationError(f"the label {self.label!r} is reserved for Frontdesk: choose another")
        known = callable(self.provider) or hasattr(self.provider, "get") or isinstance(self.provider, HistorySearch)
        if self.provider is not None and not known:
            raise ConfigurationError(
                f"the provider of block {self.label!r} has no `get`: pass an object that has one, or a factory"
            )
        if self.scope not in get_args(Scope):
            raise ConfigurationError(f"a scope must be one of {', '.join(get_args(Scope))}, not {self.scope!r}")
        if self.provider is not None and (self.default_content or self.scope != "session"):
            raise ConfigurationError(
                f"block {self.label!r} has a provider: leave out default_content and scope, which are for blocks"
                " without one"
            )

    def check_size(self, counter: TokenCounter) -> None:
        """Raises `ConfigurationError` if the block has no room for its first content."""
        tokens = counter(self.default_content) if self.default_content and self.max_tokens is not None else 0
        if self.max_tokens is not None and tokens > self.max_tokens:
            raise ConfigurationError(
                f"the default_content of block {self.label!r} has {tokens} tokens, more than its"
                f" max_tokens={self.max_tokens}: shorten it, or raise max_tokens"
            )

    @property
    def makes_provider(self) -> bool:
        """Whether `provider` is a factory."""
        return isinstance(self.provider, type) or (callable(self.provider) and not hasattr(self.provider, "get"))


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """See `with_context`, `with_cached_prompt` and `with_prompt_renderer` (None: `render_prompt`)."""

    declarations: tuple[Declaration, ...] = ()
    renderer: Renderer | None = None
    caches_prompt: bool = False
    prompt_store: PromptStore | None = None


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """See `with_compaction`."""

    summarize: Model | None = None
    is_set_up: bool = False
    max_tokens: int | None = None
    max_messages: int | None = None
    soft_ratio: float = 0.6
    hard_ratio: float = 0.8
    protect_head: int = 3
    tail_tokens: int = 20_000
    min_tail_messages: int = 2
    summary_tokens: int = 2_000
    input_tokens: int = 60_000
    strategy: Strategy = "summarize"
    auto: bool = False
    timeout: float = 120.0
    attempts: int = 3
    planner: Planner | None = None
    on_error: OnError | None = None

    @property
    def can_compact(self) -> bool:
        """Whether a compaction is possible: with a summariser, or with a strategy that does not need one."""
        return self.summarize is not None or self.strategy != "summarize"

    @property
    def can_summarise(self) -> bool:
        """Whether summaries are made."""
        return self.summarize is not None and self.strategy != "truncate"

    @property
    def is_automatic(self) -> bool:
        """Whether full views are compacted in the background."""
        return self.auto and self.can_compact


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """See `with_memory_refresh`."""

    extract: Model | None = None
    sink: Sink | None = None
    label: str = "memory"
    enabled: bool = True
    prompt: str | None = None
    max_extract_tokens: int = 500
    input_tokens: int = 60_000
    timeout: float = 60.0
    on_error: OnError | None = None
    share: bool = False

    @property
    def is_on(self) -> bool:
        return self.enabled and self.extract is not None


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """See `with_lifecycle`. In microseconds, `NEVER` for never; `every` is the number of seconds between sweeps."""

    idle_after: int = 30 * 60 * 1_000_000
    archive_after: int = 168 * 3_600 * 1_000_000
    delete_after: int = NEVER
    keep_events: int = 7 * 24 * 3_600 * 1_000_000
    every: float | None = None


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """See `with_search`. `language` is a Snowball name; `reasoning` includes the reasoning of models."""

    language: str = "english"
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """See `with_embeddings`. Without `embed`, search is by words only."""

    embed: Embed | None = None
    dimensions: int = 0
    batch_size: int = 64
    timeout: float = 60.0

    @property
    def model(self) -> str:
        """The name of the model, if the callable has one."""
        name = getattr(self.embed, "name", "")
        return name if isinstance(name, str) else ""

    def __post_init__(self) -> None:
        if self.embed is None:
            return
        if not callable(self.embed):
            raise ConfigurationError(f"embed must be a callable from texts to vectors, not {type(self.embed).__name__}")
        for what, value, most in (("dimensions", self.dimensions, MAX_DIMENSIONS), ("batch_size", self.batch_size, 0)):
            if type(value) is not int or value < 1 or (most and value > most):
                upper = f" and at most {most:,}" if most else ""
                raise ConfigurationError(f"{what} must be a whole number, at least 1{upper}, not {value!r}")
        check_numbers(timeout=self.timeout)
        if self.timeout <= 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")
        if importlib.util.find_spec("numpy") is None:
            raise ConfigurationError("embeddings need numpy: pip install 'frontdesk[embeddings]'")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one manager."""

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    counter: TokenCounter = estimate_tokens
    isolation: tuple[str, ...] = KEY_PARTS
    context: ContextSettings = field(default_factory=ContextSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    embeddings: EmbeddingSettings = field(default_factory=EmbeddingSettings)

    def check(self) -> None:
        """What only all settings together decide. Raises `ConfigurationError`."""
        for declaration in self.context.declarations:
            declaration.check_size(self.counter)


def check_answer_tokens(max_tokens: int) -> int:
    """The limit for a search result. Raises `InvalidInputError` if it is too small for one."""
    if type(max_tokens) is not int or max_tokens < MIN_ANSWER_TOKENS:
        raise InvalidInputError(f"max_tokens must be a whole number, at least {MIN_ANSWER_TOKENS}, not {max_tokens!r}")
    return max_tokens


def check_memory_scope(memory: MemorySettings, declaration: Declaration) -> None:
    """Raises `ConfigurationError` if facts about one guest would go to a block that other guests read."""
    is_target = memory.extract is not None and memory.sink is None and memory.label == declaration.label
    if is_target and declaration.scope in ("agent", "namespace") and not memory.share:
        raise ConfigurationError(
            f"block {declaration.label!r} is read by all guests of its {declaration.scope}: extract facts into a block"
            " with scope='guest', or allow it with `with_memory_refresh(..., share=True)`"
        )


def threshold(value: timedelta | None, what: str) -> int:
    """A duration in microseconds; None means never. Raises `InvalidInputError`."""
    if value is None:
        return NEVER
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise InvalidInputError(f"{what} must be a timedelta longer than 0, or None for never, not {value!r}")
    return value // timedelta(microseconds=1)
