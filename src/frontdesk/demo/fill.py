"""`fill`: all scenes, in one call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from frontdesk.demo import concierge, crowd, languages, observatory, work
from frontdesk.demo.clock import DemoClock
from frontdesk.demo.dictation import plan_all_but_the_last, take_dictation
from frontdesk.demo.scene import Stage
from frontdesk.manager import SessionManager
from frontdesk.models import extractive
from frontdesk.store import Store

LONG_SESSION = 100_000
"""the messages of the longest session"""

_CROWD = 160

Progress: TypeAlias = Callable[[str, int, int], None]
"""called with what is being written, how many steps are done, and how many there are"""


def demo_manager(store: Store | str, *, namespace: str = "default", clock: DemoClock | None = None) -> SessionManager:
    """A manager with the blocks that the sessions of the demo have. With a `clock`, it is ready for `fill`, which
    spreads them over the last two weeks and dictates their summaries."""
    manager = (
        SessionManager(store, namespace=namespace, clock=clock)
        .with_context("soul", description="Who the agent is", default_content="You help guests.", readonly=True)
        .with_context("memory", description="What is known about the guest", max_tokens=1_100, scope="guest")
        .with_context("notes", description="Notes of this conversation", max_tokens=400)
        .with_context("house", description="Rules of the house", max_tokens=600, scope="namespace")
        .with_cached_prompt()
    )
    if clock is None:
        return manager.with_compaction(extractive(), auto=False)
    return manager.with_compaction(take_dictation, planner=plan_all_but_the_last, auto=False)


async def fill(
    manager: SessionManager,
    clock: DemoClock,
    *,
    long_session: int = LONG_SESSION,
    sessions: int = _CROWD,
    on_progress: Progress | None = None,
) -> None:
    """Write the demo into an empty namespace. `manager` and `clock` are those of `demo_manager`.

    `long_session` is the number of messages of the longest session, `sessions` the number of short ones. Raises
    `SessionExistsError` if the demo is there already."""
    report = on_progress or _silent
    stage = Stage(manager, clock, datetime.now(UTC))
    written = 0

    def count(messages: int) -> None:
        nonlocal written
        written += messages
        report("a long session", written, long_session)

    try:
        # The oldest first: events have the order in which they were written.
        await observatory.play(stage, long_session, count)
        await crowd.play(stage, sessions)
        for done, (name, play) in enumerate(_SCENES):
            report(name, done, len(_SCENES))
            await play(stage)
    finally:
        clock.release()


async def _set_house_rules(stage: Stage) -> None:
    """A block that all agents share, with two versions."""
    session = stage.manager.session("lisbon")
    rules = ("Breakfast until 10:30.", "Breakfast until 11:00. No promises about the weather.")
    for days, text in zip((9, 4), rules, strict=True):
        stage.go_back(days=days)
        await session.replace_context_block("house", text, author="manager")


async def _change_house_rules(stage: Stage) -> None:
    """A third version, after prompts with the second one were frozen."""
    stage.go_back(minutes=50)
    await stage.manager.session("lisbon").append_context_block(
        "house", "Refunds above 500 euro need a person.", author="legal"
    )


def _silent(what: str, done: int, total: int) -> None:
    """No progress is wanted."""


_SCENES = (
    ("the concierge", concierge.play),
    ("the rules of the house", _set_house_rules),
    ("several languages", languages.play),
    ("agents at work", work.play),
    ("a new rule of the house", _change_house_rules),
    ("tonight", concierge.play_tonight),
)
