"""One very long conversation: an agent that watches a telescope, written in large batches and summarised night by
night."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from frontdesk.demo.scene import Scene, Stage
from frontdesk.keys import SessionKey

KEY = SessionKey("observatory", "mqtt", "dome-3")
_BATCH = 2_500
_SHORT = 1_000
_TARGETS = ("M31", "NGC 7000", "Jupiter", "Vega", "M57", "IC 1396", "Saturn", "Albireo", "M13", "NGC 6888")


async def play(stage: Stage, messages: int, on_message: Callable[[int], None]) -> None:
    """Write `messages` messages, one every twelve seconds until an hour ago, with a summary after each batch."""
    start = stage.now - timedelta(hours=1, seconds=12 * messages)
    stage.clock.set(start)
    scene = await stage.open(
        "Watching the sky from dome 3", "dome-3", KEY, model="claude-haiku-5", tags=["long"], max_tokens=100_000
    )
    await scene.session.set_system_prompt(
        "You watch a telescope. Report what changes; stay silent about what does not."
    )
    await scene.session.replace_context_block("notes", "Close the dome above 85 % humidity or 14 m/s of wind.")
    for first in range(0, messages, _BATCH):
        count = min(_BATCH, messages - first)
        stage.clock.set(start + timedelta(seconds=12 * (first + count)))
        await scene.session.append_all(_readings(stage, start, first, count))
        await _finish_night(scene, first, count)
        on_message(count)


async def _finish_night(scene: Scene, first: int, count: int) -> None:
    night = first // _BATCH + 1
    if count > _SHORT:
        target = _TARGETS[night % len(_TARGETS)]
        await scene.compact(
            f"Nights 1 to {night}: {first + count:,} readings. The dome was closed {night * 2} times for humidity and"
            f" {night} times for wind. Best seeing: 0.{60 + night % 30} arcsec, on {target}. Guiding error stays below"
            " 0.4 arcsec; the focuser was recalibrated on every tenth night."
        )
    await scene.answer(f"Night {night}: {count} readings, nothing that needs a person.")


def _readings(stage: Stage, start: Any, first: int, count: int) -> Iterator[dict[str, Any]]:
    for number in range(first, first + count):
        at = (start + timedelta(seconds=12 * number)).isoformat()
        yield {"role": "user" if number % 2 == 0 else "assistant", "content": _text(stage, number), "created_at": at}


def _text(stage: Stage, number: int) -> str:
    seeing, humidity = 0.6 + stage.random.random() * 1.8, 38 + stage.random.randrange(50)
    target = _TARGETS[number // 400 % len(_TARGETS)]
    if number % 2:
        return f"Noted. {target} stays in the field, exposure {number // 2} is {'kept' if seeing < 2 else 'dropped'}."
    return f"reading {number}: {target}, seeing {seeing:.2f} arcsec, humidity {humidity} %, wind {humidity % 15} m/s"
