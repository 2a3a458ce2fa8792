"""The scenes of the hotel's concierge: a guest who comes back, an edited question, a fork, a summary, and what the
agent learned about the guest."""

from __future__ import annotations

from frontdesk.demo.scene import Scene, Stage
from frontdesk.keys import SessionKey

ANA = SessionKey("concierge", "web", "ana")

_MEMORY = (
    "Ana travels with her daughter Inês (8).",
    "Ana travels with her daughter Inês (8). She is allergic to shellfish.",
    "Ana travels with her daughter Inês (8). She is allergic to shellfish. Prefers trains over planes below six hours.",
    "Ana travels with her daughter Inês (8). She is allergic to shellfish. Prefers trains over planes below six hours."
    " Books quiet rooms, high floor, away from the lift.",
)

_PLANS = (
    (
        "Can we see the tiles museum and still be back for lunch?",
        "Yes. Take the 794 bus from Praça do Comércio at 9:40;"
        " the Museu do Azulejo opens at 10. Ninety minutes are enough, and you are back by half past twelve.",
    ),
    (
        "Where do we eat without shellfish?",
        "Taberna da Rua das Flores marks allergens on the menu and has a table at"
        " 13:00. I asked them to keep the kitchen free of cross-contact; they confirmed.",
    ),
    (
        "Inês wants to see the sea.",
        "Then Cascais: trains leave Cais do Sodré every 20 minutes and run along the water."
        " Praia da Rainha is two minutes from the station, small and calm.",
    ),
    (
        "Is it too cold to swim in May?",
        "The water has about 17 °C. Children go in anyway. Take a towel and a warm"
        " layer for afterwards: the wind rises after four.",
    ),
    (
        "Please book the Oceanário for Sunday morning.",
        "Booked: Sunday 10:00, one adult, one child, 38 euro, code OCE-4471. Entry is at the east gate.",
    ),
    (
        "What about the castle?",
        "São Jorge is best at opening time, 9:00, before the groups. The peacocks are loose in"
        " the garden, which tends to settle the question with eight-year-olds.",
    ),
    (
        "How late does tram 28 run?",
        "Until about 23:00, but it is full until 19:00. Board at Martim Moniz, not on the way, if you want seats.",
    ),
    (
        "We need a pharmacy for the allergy tablets.",
        "Farmácia Estácio at Rossio is open until midnight. Ask for cetirizine; no prescription is needed in Portugal.",
    ),
)


async def play(stage: Stage) -> None:
    lisbon = await _plan_lisbon(stage)
    await _fork_by_train(stage, lisbon)
    await _come_back(stage)


async def _plan_lisbon(stage: Stage) -> Scene:
    """A planned journey with an edited question (two branches), tool calls, a summary and a changing memory."""
    stage.go_back(days=5, hours=3)
    scene = await stage.open(
        "A long weekend in Lisbon",
        "lisbon",
        ANA,
        tags=["travel", "booked"],
        metadata={"plan": "gold", "language": "en"},
        source="web",
        max_tokens=12_000,
    )
    session = scene.session
    await session.set_system_prompt("You are the concierge of Hotel Mirador. Be brief, exact and warm.")
    greeting = await scene.answer("Good morning, Ana! Where may I take you this time?")
    await scene.user("Three days in Porto in May, with my daughter. Where should we stay?")
    await scene.answer("In Ribeira, by the river: Casa do Rio has a family room for 95 euro a night.")
    await scene.user("Three days in Lisbon in May, with my daughter. Where should we stay?", parent=greeting)
    rooms = [
        {"hotel": "Solar do Castelo", "quarter": "Alfama", "family_room": 148, "quiet": True, "floor": 4},
        {"hotel": "Lisboa Pessoa", "quarter": "Chiado", "family_room": 176, "quiet": True, "floor": 6},
        {"hotel": "Tejo Rooms", "quarter": "Cais do Sodré", "family_room": 99, "quiet": False, "floor": 2},
    ]
    await scene.tool("find_rooms", rooms, city="Lisbon", nights=3, adults=1, children=[8], arrival="2026-05-14")
    await scene.answer(
        "Two that fit:\n\n| hotel | quarter | a night |\n|---|---|---|\n| Solar do Castelo | Alfama | 148 € |\n"
        "| Lisboa Pessoa | Chiado | 176 € |\n\n**Solar do Castelo** is quieter; from **Pessoa** you walk everywhere.",
        reasoning=180,
    )
    for facts, author in zip(_MEMORY[:2], ("extractor", "ana"), strict=True):
        await session.replace_context_block("memory", facts, author=author)
    await session.freeze_system_prompt()
    for question, answer in _PLANS[:5]:
        await scene.user(question)
        await scene.answer(answer)
    await scene.compact(
        "Ana and her daughter Inês (8) spend 14 to 17 May in Lisbon. Room: Solar do Castelo, fourth floor, 148 euro a"
        " night. Done: tiles museum by bus 794, lunch without shellfish at Taberna da Rua das Flores, Cascais by train."
        " Booked: Oceanário, Sunday 10:00, OCE-4471, 38 euro."
    )
    for question, answer in _PLANS[5:]:
        await scene.user(question)
        await scene.answer(answer)
    await session.replace_context_block("memory", _MEMORY[2], author="extractor")
    return scene


async def _fork_by_train(stage: Stage, lisbon: Scene) -> None:
    """The same journey by another way: a fork that shares the past."""
    stage.go_back(days=4, hours=20)
    forked = await stage.manager.fork("lisbon", name="Lisbon, but by night train", new_id="lisbon-by-train")
    scene = Scene(stage, forked, lisbon.model)
    await forked.add_tags("idea")
    await scene.user("What if we came by night train from Madrid instead?")
    await scene.answer("The Lusitânia has not run since 2020. By day: Madrid 10:14, Badajoz 15:35, Lisbon 20:20.")
    await scene.user("Ten hours with an eight-year-old. Hm.")
    await scene.answer("Badajoz has a castle park next to the station: a break of two hours makes it two short days.")


async def _come_back(stage: Stage) -> None:
    """`new` starts another conversation under the same key; the first one stays."""
    stage.go_back(days=2, hours=6)
    session = await stage.manager.new(ANA)
    await session.rename("Restaurant for a birthday")
    scene = Scene(stage, session, "claude-sonnet-5")
    await scene.user("My mother turns 70 on Saturday. A table for six, somewhere with a view?")
    tables = [{"name": "Varanda", "seats": 6, "time": "19:30"}, {"name": "Terraço", "seats": 8, "time": "21:00"}]
    await scene.tool("find_table", tables, people=6, date="2026-05-16", view=True)
    await scene.answer("Varanda, 19:30, on the terrace. They know about the shellfish. Shall I ask for a cake?")
    await scene.user("Yes please, almond, and 70 in candles, not seventy candles.")
    await scene.answer("Ordered: almond cake, two candles shaped 7 and 0. 🎂 Confirmation VAR-220.")
    await session.replace_context_block("memory", _MEMORY[3], author="ana")
    await session.add_tags("booked")


async def play_tonight(stage: Stage) -> None:
    """Two conversations of the last minutes, so that something is active."""
    stage.go_back(minutes=9)
    scene = await stage.open(
        "Late check-in", "late-check-in", SessionKey("concierge", "web", "ben"), model="claude-haiku-5", source="web"
    )
    await scene.user("My flight lands at 23:55. Is anybody at the desk?")
    await scene.answer("Always. The night porter is Rui; ring twice. Your key is number 204.")
    stage.go_back(minutes=4)
    thread = SessionKey("concierge", "whatsapp", "+351 910 000 118", "room-204")
    scene = await stage.open("Room 204", "room-204", thread, model="claude-haiku-5", source="whatsapp")
    await scene.user("the heating makes a noise like a small helicopter")
    await scene.tool("open_ticket", {"ticket": "M-881", "eta_minutes": 15}, room="204", subject="heating, rattling")
    await scene.answer("Sorry about that! Marco from maintenance is with you in 15 minutes (M-881).")
