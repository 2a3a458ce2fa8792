"""The chainable set-up, shared by `SessionManager` and `Session.create`: in any order, before first use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self

from frontdesk.checks import check_count
from frontdesk.compaction.planning import plan
from frontdesk.compaction.settings import CompactionSettings, MemorySettings, Model, Planner, Sink, Strategy
from frontdesk.config.scope import KEY_PARTS, Scope
from frontdesk.context.blocks import Declaration
from frontdesk.context.past import SearchableHistory
from frontdesk.context.settings import ContextSettings, PromptStore, Renderer
from frontdesk.errors import ConfigurationError
from frontdesk.lifecycle.transitions import LifecycleSettings, threshold
from frontdesk.messages.tokens import TokenCounter
from frontdesk.search.embeddings import Embed, EmbeddingSettings
from frontdesk.search.settings import SearchSettings
from frontdesk.search.tokeniser import tokeniser_for
from frontdesk.search.tool import ANSWER_TOKENS, check_answer_tokens
from frontdesk.search.visible import Past, SessionScope


class Configurable:
    """Set-up calls; each gives the object back. After first use they raise `ConfigurationError`."""

    _scope: Scope
    _configurable = True

    def with_token_counter(self, counter: TokenCounter) -> Self:
        """Count tokens with `counter(text) -> int` instead of the built-in estimate."""
        if not callable(counter):
            raise ConfigurationError(f"a token counter is a callable from text to int, not {type(counter).__name__}")
        self._unused().counter = counter
        return self

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        shared: bool = False,
        provider: Any = None,
    ) -> Self:
        """Declare a context block of every session.

        Without a provider it lives in the store, per session or (`shared`) per namespace. `provider` is an object with
        `get` (and `set`, `load` or `search`), or a factory `(session_id) -> provider`."""
        return self._declare(Declaration(label, description, default_content, max_tokens, readonly, shared, provider))

    def with_searchable_history(
        self,
        label: str,
        *,
        description: str | None = "Earlier conversations",
        scope: SessionScope | None = None,
        max_tokens: int = ANSWER_TOKENS,
    ) -> Self:
        """Declare a searchable block that searches all sessions of the namespace, as `SessionManager.tools` does.

        What the session's own history shows is left out; what was compacted away is found. `scope(session_info)` says
        of each session whether it may be seen, `max_tokens` is the most that an answer costs."""
        check_answer_tokens(max_tokens)
        past = seen_past(self._scope, scope)
        return self._declare(
            Declaration(label, description, provider=lambda session_id: SearchableHistory(past, session_id, max_tokens))
        )

    def with_embeddings(self, embed: Embed, *, dimensions: int, batch_size: int = 64, timeout: float = 60.0) -> Self:
        """Let search find by meaning, too: `embed(texts)`, sync or async, gives a vector of `dimensions` numbers for
        each text, such as `frontdesk.models.openai_embeddings` does. It is asked for at most `batch_size` at a time,
        and given up after `timeout` seconds. Raises `ConfigurationError` without numpy."""
        self._unused().set_settings(EmbeddingSettings(embed, dimensions, batch_size, timeout))
        return self

    def _declare(self, declaration: Declaration) -> Self:
        declarations = self._unused().settings(ContextSettings).declarations
        if any(declared.label == declaration.label for declared in declarations):
            raise ConfigurationError(f"there is a context block {declaration.label!r} already")
        declarations.append(declaration)
        return self

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Keep frozen prompts, so that every worker and every restart uses the same text: in the store of the sessions,
        or in an object with `get(session_id)` and `set(session_id, text)`."""
        settings = self._unused().settings(ContextSettings)
        settings.caches_prompt = True
        settings.prompt_store = store
        return self

    def with_prompt_renderer(self, render: Renderer) -> Self:
        """Render blocks with `render(blocks) -> str` instead of `frontdesk.context.render_prompt`."""
        if not callable(render):
            raise ConfigurationError(f"a renderer is a callable from blocks to text, not {type(render).__name__}")
        self._unused().settings(ContextSettings).renderer = render
        return self

    def with_compaction(
        self,
        summarize: Model | None = None,
        *,
        max_tokens: int | None = None,
        max_messages: int | None = None,
        soft_ratio: float = 0.6,
        hard_ratio: float = 0.8,
        protect_head: int = 3,
        tail_tokens: int = 20_000,
        min_tail_messages: int = 2,
        summary_tokens: int = 2_000,
        input_tokens: int = 60_000,
        strategy: Strategy = "summarize",
        auto: bool = True,
        timeout: float = 120.0,
        attempts: int = 3,
        planner: Planner = plan,
        on_error: Callable[[str, Exception], Any] | None = None,
    ) -> Self:
        """Keep the view of every session within its window.

        `summarize` is any callable `prompt -> text`, sync or async. When the view reaches `hard_ratio` of `max_tokens`
        (what the session says, or its model's window, if not given) or has more than `max_messages`, a compaction
        starts beside the conversation (`auto`). `strategy` "truncate" hides without a summary; "hybrid" hides old tool
        traffic when the summariser fails. `input_tokens` is the most it is given at a time, `summary_tokens` the most
        it is asked for. `planner` chooses what to compact. `on_error(session_id, error)` is told of failures."""
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
        if protect_head < 0 or timeout <= 0 or not (summarize is None or callable(summarize)):
            raise ConfigurationError("protect_head must not be negative, timeout positive, summarize a callable")
        if max_messages is not None and max_messages <= protect_head + min_tail_messages:
            raise ConfigurationError(
                f"max_messages={max_messages} leaves no room beside protect_head={protect_head} and"
                f" min_tail_messages={min_tail_messages}: raise it, or lower them"
            )
        self._unused().set_settings(
            CompactionSettings(
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
        label: str = "memory",
        enabled: bool = True,
        prompt: str | None = None,
        max_extract_tokens: int = 500,
        timeout: float = 60.0,
        on_error: Callable[[str, Exception], Any] | None = None,
    ) -> Self:
        """Carry durable facts out of conversations: when a view crosses the soft ratio of `with_compaction`, and beside
        every compaction, `extract(prompt) -> text` is asked for facts in what is new. They are normalised, and those
        not known yet go to `sink(session_id, facts)`, or into the context block `label`, which must be declared."""
        if not callable(extract):
            raise ConfigurationError(f"an extractor is a callable from prompt to text, not {type(extract).__name__}")
        check_count(max_extract_tokens, "max_extract_tokens")
        self._unused().set_settings(
            MemorySettings(
                extract=extract,
                sink=sink,
                label=label,
                enabled=enabled,
                prompt=prompt,
                max_extract_tokens=max_extract_tokens,
                timeout=timeout,
                on_error=on_error,
            )
        )
        return self

    def with_lifecycle(
        self,
        idle_after: timedelta | None = timedelta(minutes=30),
        archive_after: timedelta | None = timedelta(hours=168),
        delete_after: timedelta | None = None,
        keep_events: timedelta | None = timedelta(days=7),
        every: timedelta | None = timedelta(minutes=1),
    ) -> Self:
        """When sessions become idle, are archived (reason `timeout`) and are deleted; None is never.

        The first two count from the last message, `delete_after` from the end of a session, whatever ended it; nothing
        is deleted unless that is given. `events` can be resumed for as long as `keep_events`. A manager sweeps in the
        background `every` so often (None: only when `sweep` is called). `Session.set_lifecycle` gives a session
        thresholds of its own."""
        spans = {
            "idle_after": idle_after,
            "archive_after": archive_after,
            "delete_after": delete_after,
            "keep_events": keep_events,
        }
        thresholds = {what: threshold(span, what) for what, span in spans.items()}
        threshold(every, "every")
        seconds = None if every is None else every.total_seconds()
        self._unused().set_settings(LifecycleSettings(**thresholds, every=seconds))
        return self

    def with_isolation(self, *parts: str) -> Self:
        """Which parts of a key tell sessions apart, of "agent", "channel", "peer" and "thread" (all, if never called).

        With `with_isolation("agent", "peer")` a peer has one session with an agent over all channels and threads; its
        key has "*" for what does not count."""
        wanted = set(parts)
        if not wanted or not wanted <= set(KEY_PARTS):
            raise ConfigurationError(f"isolation is by one or more of {', '.join(KEY_PARTS)}, not {parts!r}")
        self._unused().isolation = tuple(part for part in KEY_PARTS if part in wanted)
        return self

    def with_search(self, *, language: str = "english", reasoning: bool = False) -> Self:
        """Search words in Latin letters by the forms of this language (a Snowball name), and `reasoning`, too.

        All who use a namespace must say the same: an index made otherwise is built anew.
        Raises `ConfigurationError` for a language without a stemmer."""
        tokeniser_for(language)
        self._unused().set_settings(SearchSettings(language=language, reasoning=bool(reasoning)))
        return self

    def _unused(self) -> Scope:
        if not self._configurable:
            raise ConfigurationError("a handle has no settings of its own: set them on the manager that made it")
        if self._scope.used:
            raise ConfigurationError("settings are final after first use: call every with_...() before it")
        return self._scope


def seen_past(scope: Scope, sees: SessionScope | None) -> Past:
    """All conversations of a namespace, for those who may see what `sees` lets pass."""
    return Past(scope, lambda limit, model: scope.settings(CompactionSettings).window(limit, model), sees)
