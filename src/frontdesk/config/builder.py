"""The `with_...` calls that set up a `SessionManager` or a `StandaloneSession`: in any order, before first use."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

import Stemmer

from frontdesk.checks import check_callables, check_count, check_flags, check_numbers, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SearchScope, check_scope
from frontdesk.config.settings import (
    ANSWER_TOKENS,
    KEY_PARTS,
    CompactionSettings,
    Declaration,
    Embed,
    EmbeddingSettings,
    HistorySearch,
    LifecycleSettings,
    MemorySettings,
    Model,
    OnError,
    Planner,
    PromptStore,
    Renderer,
    SearchSettings,
    Sink,
    Strategy,
    check_answer_tokens,
    check_memory_scope,
    threshold,
)
from frontdesk.errors import ConfigurationError
from frontdesk.messages.tokens import TokenCounter
from frontdesk.store import Scope

_COMPACTION, _MEMORY, _SEARCH, _EMBEDDINGS = (
    CompactionSettings(),
    MemorySettings(),
    SearchSettings(),
    EmbeddingSettings(),
)


class Configurable:
    """The `with_...` calls. Each returns the object itself, and raises `ConfigurationError` after first use."""

    _runtime: Runtime

    def with_token_counter(self, counter: TokenCounter) -> Self:
        """Count tokens with `counter(text) -> int` instead of the built-in estimate."""
        if not callable(counter):
            raise ConfigurationError(
                f"a token counter must be a callable from text to int, not {type(counter).__name__}"
            )
        self._runtime.configure(counter=counter)
        return self

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        scope: Scope = "session",
        provider: Any = None,
    ) -> Self:
        """Declare a context block for every session. `description` tells the model what the block is for. Its content
        is `default_content` until it is written to, and has at most `max_tokens`: a default content that is longer
        raises `ConfigurationError` at first use. A `readonly` block cannot be written to.

        Without a provider, the store keeps its content: one for each session, or for each `key`, `guest` (a key without
        its thread) or `agent`, or one for the whole `namespace`. For a session without a key, the scopes `key`, `guest`
        and `agent` mean the session itself.

        `provider` is an object with `get` (and `set`, `load` or `search`), or a factory `(session_id, key) ->
        provider`; `key` is None for a session without one. A provider keeps its own data, so `provider` together with
        `scope` or `default_content` raises `ConfigurationError`."""
        return self._declare(Declaration(label, description, default_content, max_tokens, readonly, scope, provider))

    def with_searchable_history(
        self,
        label: str,
        *,
        description: str | None = "Earlier conversations",
        scope: SearchScope = "guest",
        max_tokens: int = ANSWER_TOKENS,
    ) -> Self:
        """Declare a searchable block over earlier conversations: by default those of the same guest.

        `scope` is that of `Session.tools`. Messages that the model sees in its own history are left out; those under a
        compaction are found. `max_tokens` limits each result. Raises `ConfigurationError` for an unknown scope."""
        check_answer_tokens(max_tokens)
        return self._declare(Declaration(label, description, provider=HistorySearch(check_scope(scope), max_tokens)))

    def with_embeddings(
        self,
        embed: Embed,
        *,
        dimensions: int,
        batch_size: int = _EMBEDDINGS.batch_size,
        timeout: float = _EMBEDDINGS.timeout,
    ) -> Self:
        """Search by meaning as well as by words. `embed(texts)`, sync or async, returns a vector of `dimensions`
        numbers for each text; see `frontdesk.models.openai_embeddings`. It gets at most `batch_size` texts at a time,
        and is abandoned after `timeout` seconds. Raises `ConfigurationError` without numpy."""
        self._runtime.configure(embeddings=EmbeddingSettings(embed, dimensions, batch_size, timeout))
        return self

    def _declare(self, declaration: Declaration) -> Self:
        declarations = self._runtime.settings.context.declarations
        if any(declared.label == declaration.label for declared in declarations):
            raise ConfigurationError(
                f"context block {declaration.label!r} is declared twice: give each block its own label"
            )
        check_memory_scope(self._runtime.settings.memory, declaration)
        return self._configure_context(declarations=(*declarations, declaration))

    def _configure_context(self, **values: Any) -> Self:
        self._runtime.configure(context=replace(self._runtime.settings.context, **values))
        return self

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Store frozen prompts, so that all workers use the same text, even after a restart: in the store of the
        sessions, or in a `PromptStore` with `get(namespace, session_id)` and `set(namespace, session_id, text)`."""
        if not (store is None or (hasattr(store, "get") and hasattr(store, "set"))):
            raise ConfigurationError(f"a prompt store needs `get` and `set`; {type(store).__name__} does not have both")
        return self._configure_context(caches_prompt=True, prompt_store=store)

    def with_prompt_renderer(self, render: Renderer) -> Self:
        """Render blocks with `render(blocks) -> str` instead of `frontdesk.context.render_prompt`."""
        if not callable(render):
            raise ConfigurationError(f"a renderer must be a callable from blocks to text, not {type(render).__name__}")
        return self._configure_context(renderer=render)

    def with_compaction(
        self,
        summarize: Model | None = None,
        *,
        max_tokens: int | None = None,
        max_messages: int | None = None,
        soft_ratio: float = _COMPACTION.soft_ratio,
        hard_ratio: float = _COMPACTION.hard_ratio,
        protect_head: int = _COMPACTION.protect_head,
        tail_tokens: int = _COMPACTION.tail_tokens,
        min_tail_messages: int = _COMPACTION.min_tail_messages,
        summary_tokens: int = _COMPACTION.summary_tokens,
        input_tokens: int = _COMPACTION.input_tokens,
        strategy: Strategy = _COMPACTION.strategy,
        auto: bool = True,
        timeout: float = _COMPACTION.timeout,
        attempts: int = _COMPACTION.attempts,
        planner: Planner | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """Keep the view of every session within its context window.

        `summarize` is any callable `prompt -> text`, sync or async. With `auto`, a compaction starts in the background
        when the view and the frozen prompt reach `hard_ratio` of the window, or the view has more than `max_messages`.
        The window is the session's own `max_tokens`, otherwise this `max_tokens`, otherwise the context window of the
        session's model. About `protect_head` messages at the start and `tail_tokens` at the end are kept. The strategy
        "truncate" hides messages without a summary; "hybrid" hides old tool calls and results if the summariser fails.
        `input_tokens` limits what the summariser gets at a time, `summary_tokens` what it is asked for. Each call may
        take `timeout` seconds, and is made up to `attempts` times. `planner` chooses what to compact.
        `on_error(session_id, error)` is called with failures."""
        check_numbers(soft_ratio=soft_ratio, hard_ratio=hard_ratio, timeout=timeout)
        check_flags(auto=auto)
        check_callables(planner=planner, on_error=on_error)
        if not 0 < soft_ratio <= hard_ratio <= 1:
            raise ConfigurationError(f"ratios must be 0 < soft <= hard <= 1, not {soft_ratio} and {hard_ratio}")
        if strategy not in ("summarize", "truncate", "hybrid"):
            raise ConfigurationError(f"strategy must be summarize, truncate or hybrid, not {strategy!r}")
        counts = {
            "max_tokens": max_tokens,
            "max_messages": max_messages,
            "attempts": attempts,
            "tail_tokens": tail_tokens,
            "min_tail_messages": min_tail_messages,
            "summary_tokens": summary_tokens,
            "input_tokens": input_tokens,
        }
        for what, value in counts.items():
            check_count(value, what)
        if not (summarize is None or callable(summarize)):
            raise ConfigurationError(f"summarize must be a callable from a prompt to a text, not {summarize!r}")
        if type(protect_head) is not int or protect_head < 0 or timeout <= 0:
            raise ConfigurationError("protect_head must be a whole number, 0 or more, and timeout above 0")
        if max_messages is not None and max_messages <= protect_head + min_tail_messages:
            raise ConfigurationError(
                f"max_messages={max_messages} must be more than protect_head={protect_head} and"
                f" min_tail_messages={min_tail_messages} together: raise it, or lower them"
            )
        self._runtime.configure(
            compaction=CompactionSettings(
                summarize=summarize,
                is_set_up=True,
                max_tokens=max_tokens,
                max_messages=max_messages,
                soft_ratio=soft_ratio,
                hard_ratio=hard_ratio,
                protect_head=protect_head,
                tail_tokens=tail_tokens,
                min_tail_messages=min_tail_messages,
                summary_tokens=summary_tokens,
                input_tokens=input_tokens,
                strategy=strategy,
                auto=auto,
                timeout=timeout,
                attempts=attempts,
                planner=planner,
                on_error=on_error,
            )
        )
        return self

    def with_memory_refresh(
        self,
        extract: Model,
        sink: Sink | None = None,
        *,
        label: str = _MEMORY.label,
        enabled: bool = _MEMORY.enabled,
        prompt: str | None = None,
        max_extract_tokens: int = _MEMORY.max_extract_tokens,
        timeout: float = _MEMORY.timeout,
        on_error: OnError | None = None,
        share: bool = _MEMORY.share,
    ) -> Self:
        """Extract durable facts from conversations. `extract(prompt) -> text`, sync or async, is called with the new
        messages when the view and the frozen prompt reach the soft ratio of `with_compaction`, with every compaction,
        and when a session ends. The facts are normalised. New ones are passed to `sink(session_id, facts)`, or without
        a sink written to the context block `label`, which must be declared, in the scope of that block.

        A block that has become too long is rewritten by the extractor; its earlier versions stay. Facts that were
        written to a block are deleted together with the messages that they came from. A block of an agent or of the
        namespace is read by other guests: it is accepted only with `share=True`, and raises `ConfigurationError`
        otherwise."""
        if not callable(extract):
            raise ConfigurationError(
                f"an extractor must be a callable from a prompt to a text, not {type(extract).__name__}"
            )
        check_count(max_extract_tokens, "max_extract_tokens")
        check_text(label, "label")
        if prompt is not None:
            check_text(prompt, "prompt")
        check_callables(sink=sink, on_error=on_error)
        check_flags(enabled=enabled, share=share)
        check_numbers(timeout=timeout)
        if timeout <= 0:
            raise ConfigurationError(f"timeout must be above 0, not {timeout!r}")
        memory = MemorySettings(
            extract=extract,
            sink=sink,
            label=label,
            enabled=enabled,
            prompt=prompt,
            max_extract_tokens=max_extract_tokens,
            timeout=timeout,
            on_error=on_error,
            share=share,
        )
        for declaration in self._runtime.settings.context.declarations:
            check_memory_scope(memory, declaration)
        self._runtime.configure(memory=memory)
        return self

    def with_lifecycle(
        self,
        idle_after: timedelta | None = timedelta(minutes=30),
        archive_after: timedelta | None = timedelta(hours=168),
        delete_after: timedelta | None = None,
        keep_events: timedelta | None = timedelta(days=7),
        every: timedelta | None = timedelta(minutes=1),
    ) -> Self:
        """Set when sessions become idle, are archived (reason `timeout`) and are deleted; None means never.

        `idle_after` and `archive_after` count from the last message, `delete_after` from the end of the session. By
        default, sessions are never deleted. `events` can be resumed for as long as `keep_events`. The manager sweeps in
        the background, at the interval `every`; with None, only when `sweep` is called. `Session.set_lifecycle` sets
        thresholds for a single session."""
        spans = {
            "idle_after": idle_after,
            "archive_after": archive_after,
            "delete_after": delete_after,
            "keep_events": keep_events,
        }
        thresholds = {what: threshold(span, what) for what, span in spans.items()}
        threshold(every, "every")
        seconds = None if every is None else every.total_seconds()
        self._runtime.configure(lifecycle=LifecycleSettings(**thresholds, every=seconds))
        return self

    def with_isolation(self, *parts: str) -> Self:
        """Set which parts of a key distinguish sessions: any of "agent", "channel", "peer" and "thread" (default: all).

        With `with_isolation("agent", "peer")`, a peer has one session with an agent over all channels and threads; its
        key has "*" for each part that is ignored."""
        if not parts or any(part not in KEY_PARTS for part in parts):
            raise ConfigurationError(f"isolation needs one or more of {', '.join(KEY_PARTS)}, not {parts!r}")
        self._runtime.configure(isolation=tuple(part for part in KEY_PARTS if part in parts))
        return self

    def with_search(self, *, language: str = _SEARCH.language, reasoning: bool = _SEARCH.reasoning) -> Self:
        """Set the language (a Snowball name) in which search finds other forms of a word in Latin letters, and whether
        search includes the `reasoning` of models.

        All managers of a namespace must use the same settings: with others, the index is built again. Raises
        `ConfigurationError` for a language without a stemmer."""
        if language not in Stemmer.algorithms():
            known = ", ".join(sorted(Stemmer.algorithms()))
            raise ConfigurationError(f"there is no stemmer for {language!r}: choose one of {known}")
        check_flags(reasoning=reasoning)
        self._runtime.configure(search=SearchSettings(language=language, reasoning=reasoning))
        return self
