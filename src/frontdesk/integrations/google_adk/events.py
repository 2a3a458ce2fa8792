"""ADK's events as messages, and messages (even those of other frameworks) as events. A compaction is an event in ADK
and an overlay in Frontdesk: each becomes the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.genai.types import Content

from frontdesk.integrations.pairs import with_calls
from frontdesk.messages import Message, NewMessage, formats
from frontdesk.records import Compaction

_SHAPE = "adk"


def to_message(event: Event) -> NewMessage:
    return NewMessage(event.model_dump(mode="json", exclude_none=True), id=event.id)


def time_of(message: Message) -> float:
    """The time of its event in seconds."""
    given = message.raw.get("timestamp") if message.shape == _SHAPE else None
    return given if isinstance(given, int | float) else message.created_at.timestamp()


def action_of(message: Message, name: str, camel_name: str) -> Any:
    """What an event does, by the name of the action. None for other messages, and for events that do not do it."""
    actions = message.raw.get("actions") if message.shape == _SHAPE else None
    return None if actions is None else actions.get(name, actions.get(camel_name))


def invocation_of(message: Message) -> str | None:
    """The invocation that an event belongs to."""
    raw = message.raw if message.shape == _SHAPE else {}
    id = raw.get("invocation_id", raw.get("invocationId"))
    return id if isinstance(id, str) else None


# reading


def all_events(messages: Sequence[Message], compactions: Sequence[Compaction], app: str) -> list[Event]:
    """Every message of a transcript, and after the range of each compaction an event that replaces it: ADK leaves out
    what it covers when it asks the model, and still finds it when it rewinds."""
    overlays = {compaction.to_id: event for compaction, event in _overlays(messages, compactions)}
    starts = {compaction.from_id for compaction in compactions}
    events: list[Event] = []
    chunk: list[Message] = []
    for message in messages:
        if message.id in starts:
            events += _events_of(chunk, app)
            chunk = []
        chunk.append(message)
        if message.id in overlays:
            events += [*_events_of(chunk, app), overlays[message.id]]
            chunk = []
    return events + _events_of(chunk, app)


def recent_events(view: Sequence[Message], app: str) -> list[Event]:
    """What is left of a history as events: summaries replace what they cover, and a tool result is left out if its call
    is missing. ADK's own event for a summary is not repeated."""
    summaries = {message.text for message in view if message.is_summary}
    shown = [message for message in with_calls(view) if summary_in(message) not in summaries]
    events: list[Event] = []
    for is_summary, run in groupby(enumerate(shown), key=lambda item: item[1].is_summary):
        if not is_summary:
            events += _events_of([message for _, message in run], app)
            continue
        for position, message in run:
            later = min((time_of(other) for other in shown[position + 1 :]), default=math.inf)
            end = min(message.created_at.timestamp(), math.nextafter(later, -math.inf))
            events.append(_compaction_event(message, 0.0, end))
    return events


def _events_of(messages: Sequence[Message], app: str) -> list[Event]:
    events: list[Event] = []
    for is_own, run in groupby(messages, key=lambda message: message.shape == _SHAPE):
        if is_own:
            events += [Event.model_validate_json(message.stored.raw) for message in run]
        else:
            events += _foreign_events(list(run), app)
    return events


def _foreign_events(messages: list[Message], app: str) -> Iterator[Event]:
    """Messages of other frameworks. What no user said was said by the app's agent."""
    for number, content in enumerate(formats.render(messages, "gemini")):
        results = [part for part in content["parts"] if "functionResponse" in part]
        others = [part for part in content["parts"] if "functionResponse" not in part]
        speaker = "user" if content["role"] == "user" else app
        for author, parts in ((app, results), (speaker, others)):
            if parts:
                yield Event(
                    id=f"{messages[0].id}#{number}{'r' if parts is results else ''}",
                    invocation_id=messages[0].id,
                    author=author,
                    timestamp=time_of(messages[0]),
                    content=Content.model_validate({"role": content["role"], "parts": parts}),
                )


# compaction


def covered_by(event: Event, events: Sequence[Event]) -> tuple[str, str] | None:
    """The ids of the first and the last event that one of ADK's compaction events covers. None if it covers nothing or
    has no summary, and for other events."""
    compaction = event.actions.compaction
    if compaction is None or not _text_of(compaction.compacted_content):
        return None
    covered = [
        other.id
        for other in events
        if other.actions.compaction is None
        and compaction.start_timestamp <= other.timestamp <= compaction.end_timestamp
    ]
    return (covered[0], covered[-1]) if covered else None


def summary_in(message: Message) -> str | None:
    """The summary in a message that is one of ADK's compaction events."""
    compaction = action_of(message, "compaction", "compaction")
    return None if compaction is None else _text_of(EventCompaction.model_validate(compaction).compacted_content)


def _overlays(messages: Sequence[Message], compactions: Sequence[Compaction]) -> Iterator[tuple[Compaction, Event]]:
    """The compactions that count on this path, with the event for each. ADK covers all events of a period: a compaction
    is left out if that would hide a message outside of its range, or if ADK made it and has its own event for it."""
    places = {message.id: position for position, message in enumerate(messages)}
    times = [time_of(message) for message in messages]
    made_by_adk = {summary_in(message) for message in messages} - {None}
    taken: list[range] = []
    for compaction in reversed(compactions):
        first, last = places.get(compaction.from_id), places.get(compaction.to_id)
        if first is None or last is None or any(first < other.stop and other.start <= last for other in taken):
            continue
        covered = range(first, last + 1)
        taken.append(covered)
        start, end = min(times[first : last + 1]), max(times[first : last + 1])
        hides_others = any(start <= at <= end for place, at in enumerate(times) if place not in covered)
        if not hides_others and compaction.summary not in made_by_adk:
            summary = Message.summary(compaction.id, compaction.summary or "", 0, 0, None)
            yield compaction, _compaction_event(summary, start, end)


def _compaction_event(summary: Message, start: float, end: float) -> Event:
    """The event for a summary, which the model sees as what it is, instead of something that was said. Without a text,
    the range is only hidden."""
    contents = formats.render([summary], "gemini") if summary.text else [{"role": "user", "parts": []}]
    content = Content.model_validate(contents[0])
    compaction = EventCompaction(start_timestamp=start, end_timestamp=end, compacted_content=content)
    return Event(id=summary.id, author="user", timestamp=end, actions=EventActions(compaction=compaction))


def _text_of(content: Content) -> str:
    return "\n".join(part.text for part in content.parts or [] if part.text)
