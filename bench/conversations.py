"""The conversations for the compaction benchmark, generated or real: long, with facts in known messages.

What counts as a fact is defined here.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PLANTED_EVERY = 40
_TOOL_EVERY = 10
_RARE = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """`needle` is in message `message_id`. A text that contains it as whole words contains the fact."""

    kind: str
    needle: str
    message_id: str

    def is_in(self, text: str) -> bool:
        return self.needle in text and re.search(rf"(?<!\w){re.escape(self.needle)}(?!\w)", text) is not None


@dataclass(frozen=True, slots=True)
class Question:
    """A question that the messages `evidence` answer."""

    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in the OpenAI format, the facts in them, questions about them, and the context window."""

    name: str
    budget: int
    messages: Sequence[dict[str, Any]]
    facts: Sequence[Fact]
    questions: Sequence[Question]


# real ones

_TERM = re.compile(r"(?<=[\w,;:] )[A-Z][\w’'-]*\w(?: [A-Z][\w’'-]*\w)*|\b\d+(?:[.,:/]\d+)*\b")
_PRONOUN = re.compile(r"I['’]")


def locomo(path: Path, budget: int) -> Iterator[Conversation]:
    """The conversations of a LoCoMo file.

    Its questions are used unchanged. Facts are the capitalised names inside sentences, the numbers and the dates in the
    turns that answer a question. Names of speakers, and what more than three turns mention, do not count, since they
    would be in any view."""
    for sample in json.loads(path.read_text()):
        spoken = sample["conversation"]
        turns = {turn["dia_id"]: turn for key in spoken if isinstance(spoken[key], list) for turn in spoken[key]}
        questions = [question for qa in sample["qa"] if (question := _question(qa, turns))]
        speakers = (spoken["speaker_a"], spoken["speaker_b"])
        messages = [
            {
                "id": turn_id,
                "role": "user" if turn["speaker"] == speakers[0] else "assistant",
                "name": turn["speaker"],
                "content": turn["text"] or turn.get("blip_caption") or "(a picture)",
            }
            for turn_id, turn in turns.items()
        ]
        yield Conversation(sample["sample_id"], budget, messages, _terms(messages, questions, speakers), questions)


def _question(qa: dict[str, Any], turns: dict[str, Any]) -> Question | None:
    evidence = [turn_id for entry in qa["evidence"] for turn_id in re.findall(r"D\d+:\d+", entry) if turn_id in turns]
    return Question(qa["question"], tuple(evidence)) if evidence and qa["category"] != 5 else None


def _terms(messages: Sequence[dict[str, Any]], questions: Sequence[Question], speakers: tuple[str, str]) -> list[Fact]:
    evidence = {turn_id for question in questions for turn_id in question.evidence}
    facts = []
    for message in messages:
        for term in dict.fromkeys(_TERM.findall(message["content"]) if message["id"] in evidence else ()):
            fact = Fact("number" if term[0].isdigit() else "name", term, message["id"])
            mentions = sum(fact.is_in(other["content"]) for other in messages)
            if mentions <= _RARE and not term.startswith(speakers) and not _PRONOUN.match(term):
                facts.append(fact)
    return facts


# generated ones


def _words(text: str) -> list[str]:
    return text.split()


_FIRST = _words("Amara Bjorn Chidi Dagny Emeka Freya Goran Hanae Ilse Joaquin Katya Lorenzo Mirela Nils Oksana Pavel")
_LAST = _words("Achterberg Brankovic Castellanos Dimitrov Eriksen Fontaine Grigorescu Halvorsen Iwasaki Jovanovic")
_FIRMS = _words("Northwind Bluepeak Larkfield Tessera Quillon Harborline Vantor Ostrava Meridia Kestrel")
_COLOURS = _words("amber azure copper crimson emerald golden indigo ivory scarlet silver teal violet bronze cobalt")
_ANIMALS = _words("badger crane dolphin falcon gecko heron ibex jackal lynx marmot otter puffin raven stoat tapir wren")
_TECHNOLOGY = _words("PostgreSQL Redis Kafka RabbitMQ SQLite NATS MinIO Caddy Nginx Terraform Ansible Grafana")
_PARTS = ("import", "report", "login page", "nightly job", "queue", "cache", "mail template", "search")
_FILLER = (
    "I looked at {part} again on {day} and it behaves as before.",
    "Could you check whether {part} still takes {small} seconds?",
    "That sounds reasonable, let us see how it goes with {part}.",
    "Sure, I can do that for {part}.",
    "{first} asked about {part} as well, around {small} o'clock.",
    "There were {small} entries in the list and all of them looked fine.",
    "Thanks, that helps a lot!",
    "I think {part} is slower than it was, but only a little.",
    "We talked about {part} in the meeting and nobody minded.",
    "Let me know if anything looks odd to you.",
    "It is about {small} % more than last week.",
    "What do you make of it?",
)
_LOG = ("INFO", "DEBUG", "INFO", "WARN")


class _Writer:
    """Draws everything from one random source, so that a seed produces the same conversation everywhere."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        projects = [f"{colour} {animal}" for colour in _COLOURS for animal in _ANIMALS]
        self.source.shuffle(projects)
        self.projects = iter(projects)
        self.messages: list[dict[str, Any]] = []
        self.facts: list[Fact] = []
        self.questions: list[Question] = []

    def pick(self, among: Sequence[str]) -> str:
        return self.source.choice(among)

    def number(self, low: int, high: int) -> int:
        return self.source.randint(low, high)

    def person(self) -> str:
        return f"{self.pick(_FIRST)} {self.pick(_LAST)}"

    def filler(self, sentences: int) -> list[str]:
        return [
            self.pick(_FILLER).format(
                part=f"the {self.pick(_PARTS)}",
                day=self.pick(("Monday", "Tuesday", "Thursday", "Friday")),
                small=self.number(2, 60),
                first=self.pick(_FIRST),
            )
            for _ in range(sentences)
        ]

    def add(self, **message: Any) -> str:
        message_id = f"m{len(self.messages):05d}"
        self.messages.append({"id": message_id, **message})
        return message_id

    def plant(self, message_id: str, planted: tuple[str, str, str]) -> None:
        kind, needle, question = planted
        self.facts.append(Fact(kind, needle, message_id))
        self.questions.append(Question(question, (message_id,)))

    def say(self, role: str, *, with_fact: bool) -> None:
        sentences = self.filler(self.number(1, 6))
        planted = self.fact() if with_fact else None
        if planted is not None:
            sentences.insert(self.number(0, len(sentences)), planted[0])
        message_id = self.add(role=role, content=" ".join(sentences))
        if planted is not None:
            self.plant(message_id, planted[1:])

    def fact(self) -> tuple[str, str, str, str]:
        """A sentence, the kind of its fact, the needle, and a question that has few words in common with it."""
        project = next(self.projects)
        kind = self.pick(("name", "number", "path", "URL", "decision"))
        match kind:
            case "name":
                who, firm = self.person(), self.pick(_FIRMS)
                return f"The contact for {project} is {who} of {firm}.", kind, who, f"Who is our contact for {project}?"
            case "number":
                amount = f"{self.number(1_000, 9_999)}.{self.number(10, 99)}"
                said = f"For {project} the budget is {amount} euros."
                return said, kind, amount, f"What is the budget of {project}?"
            case "path":
                path = f"src/{self.pick(_ANIMALS)}/{project.replace(' ', '_')}_{self.number(10, 99)}.py"
                return f"The handler of {project} is in {path} now.", kind, path, f"Which file handles {project}?"
            case "URL":
                url = f"https://{self.pick(_FIRMS).lower()}.example/{self.number(100, 999)}/{project.replace(' ', '-')}"
                return f"You find the board of {project} at {url}.", kind, url, f"Where is the board of {project}?"
        used, left = self.source.sample(_TECHNOLOGY, 2)
        chosen = f"{used} instead of {left}"
        said = f"We decided that {project} will use {chosen}."
        return said, kind, f"{project} will use {chosen}", f"What was decided about {project}?"

    def use_tool(self, number: int, *, with_fact: bool) -> None:
        """A tool call and its long output, with a fact anywhere in it."""
        call_id = f"call-{number}"
        function = {"name": "read_log", "arguments": json.dumps({"unit": self.pick(_ANIMALS), "lines": 80})}
        self.add(role="assistant", content=None, tool_calls=[{"id": call_id, "type": "function", "function": function}])
        lines = [
            f"2026-03-{self.number(10, 28)} {self.number(10, 23)}:{self.number(10, 59)} {self.pick(_LOG)} "
            f"{self.pick(_ANIMALS)}[{self.number(100, 9_999)}] {self.filler(1)[0]}"
            for _ in range(self.number(15, 80))
        ]
        project = next(self.projects) if with_fact else ""
        status = f"exit status {self.number(100_000, 999_999)}"
        if with_fact:
            lines.insert(self.number(0, len(lines)), f"2026-03-29 12:00 ERROR {project} ended with {status}")
        message_id = self.add(role="tool", tool_call_id=call_id, content="\n".join(lines))
        if with_fact:
            self.plant(message_id, ("tool output", status, f"How did {project} end?"))


def generated(seed: int, count: int, budget: int) -> Conversation:
    """At least `count` messages: small talk with irrelevant numbers and names, a tool call with a long output in every
    ten messages, and a fact in every forty, one in five of them inside a tool output."""
    writer = _Writer(seed)
    writer.add(role="system", content="You look after the servers of a small company. Be brief.")
    planted, planted_next = 0, 1
    while len(writer.messages) < count:
        number = len(writer.messages)
        due = number >= planted_next
        in_tool = planted % 5 == 4
        if number % _TOOL_EVERY == 0:
            writer.use_tool(number, with_fact=due and in_tool)
        else:
            writer.say("assistant" if number % 2 else "user", with_fact=due and not in_tool)
        if len(writer.facts) > planted:
            planted += 1
            planted_next = _PLANTED_EVERY * planted + writer.number(0, _PLANTED_EVERY - 1)
    return Conversation(f"generated-{seed}", budget, writer.messages, writer.facts, writer.questions)
