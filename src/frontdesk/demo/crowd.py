"""Many short conversations of the last two weeks, so that lists have pages and usage has days."""

from __future__ import annotations

from frontdesk.demo.scene import Stage
from frontdesk.keys import SessionKey

_GUESTS = ("maya", "oskar", "ines", "tomasz", "leila", "pavel", "greta", "amara", "hugo", "yuki", "diego", "freya")
_AGENTS = (
    ("concierge", "web", "claude-haiku-5"),
    ("support", "email", "gpt-5-mini"),
    ("support", "web", "gpt-5-mini"),
    ("concierge", "telegram", "claude-sonnet-5"),
)
_TOPICS = (
    (
        "Towels for the pool",
        "Can I take the room towels to the pool?",
        "Please take the blue ones at the desk instead.",
    ),
    ("Early breakfast", "We leave at five. Is there breakfast?", "A box waits at the desk from half past four."),
    ("Parking", "Is there space for a van of 2.60 m?", "Yes, in the yard. The garage ends at 2.10 m."),
    ("Invoice address", "Please change the invoice to my company.", "Changed and sent again as a PDF."),
    ("Lost umbrella", "I left a green umbrella in the bar.", "Found! It waits for you at the desk, tagged L-{number}."),
    ("Wi-Fi is slow", "Video calls keep freezing in room {room}.", "I moved you to the 5 GHz network: mirador-{room}."),
    ("Vegan dinner", "Do you have vegan dishes tonight?", "Three: chickpea stew, roast pumpkin, mushroom rice."),
    ("Crib for a baby", "Could we have a crib in room {room}?", "It will be in your room by two o'clock."),
)


async def play(stage: Stage, sessions: int) -> None:
    for number in reversed(range(sessions)):
        agent, channel, model = _AGENTS[number % len(_AGENTS)]
        name, question, answer = _TOPICS[stage.random.randrange(len(_TOPICS))]
        room = 100 + stage.random.randrange(300)
        # The older, the fewer; those of the last days are a few hours old.
        stage.go_back(days=0.4 + 13 * (number / sessions) ** 1.4, minutes=stage.random.randrange(300))
        key = SessionKey(agent, channel, _GUESTS[stage.random.randrange(len(_GUESTS))], f"t{number}")
        scene = await stage.open(
            name, f"crowd-{number:03d}", key, model=model, tags=["short"], source=channel, max_tokens=4_000
        )
        await scene.user(question.format(room=room, number=number))
        await scene.answer(answer.format(room=room, number=number))
        if number % 3 == 0:
            await scene.user("Perfect, thank you!")
            await scene.answer("With pleasure. Anything else?")
        if number % 5 == 0:
            stage.clock.advance(3_600)
            await stage.manager.archive(scene.session.id)
