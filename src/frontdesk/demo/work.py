"""Agents at work: a coding agent with long tool outputs and summaries, a support desk with every status, and a group
chat with several authors."""

from __future__ import annotations

from frontdesk.demo.scene import Scene, Stage
from frontdesk.keys import SessionKey

MARTA = SessionKey("coder", "cli", "marta", "billing-api")

_STEPS = (
    ("invoices.py", "round_half_even", "The totals are rounded per line and again per invoice."),
    ("taxes.py", "apply_rate", "Reduced rates are looked up by country, but the table is keyed by region."),
    ("credit_notes.py", "negate", "A credit note keeps the sign of the discount, so it adds where it should subtract."),
    ("ledger.py", "post", "Posting is not idempotent: a retried request writes the entry twice."),
    ("export.py", "to_csv", "Amounts are written with the locale of the server."),
    ("webhooks.py", "verify", "The signature is compared with ==, which leaks timing."),
)


async def play(stage: Stage) -> None:
    await _write_code(stage)
    await _try_another_way(stage)
    await _answer_tickets(stage)
    await _stand_up(stage)


async def _write_code(stage: Stage) -> None:
    """A long session, nearly full, with two summaries and an abandoned attempt."""
    stage.go_back(hours=2)
    scene = await stage.open(
        "Rounding in the billing API",
        "billing-rounding",
        MARTA,
        model="gpt-5.4",
        tags=["code"],
        metadata={"repository": "billing-api", "branch": "fix/rounding"},
        source="cli",
        max_tokens=13_500,
    )
    session = scene.session
    await session.set_system_prompt("You are a careful software engineer. Run the tests before you claim success.")
    await session.replace_context_block("notes", "Python 3.13, decimal everywhere, no floats.", author="marta")
    await scene.user("Invoices are off by a cent for some customers. Find out why and fix it.")
    for number, (file, function, finding) in enumerate(_STEPS):
        listing = "\n".join(_listing(file, function, 170))
        await scene.tool("read_file", listing, path=f"billing/{file}")
        failed = await scene.tool("run_tests", _test_report(file, failing=number < 5), pattern=file.split(".")[0])
        if number == 2:
            await scene.answer("I would rewrite the credit notes from scratch, with a new table.")
            await scene.user("No, keep the schema. Smallest change that is right.", parent=failed)
        await scene.answer(
            f"**{file}**: {finding} Fixed in `{function}`, with a test that failed before.", reasoning=350
        )
        if number in (1, 3):
            done = "; ".join(f"{name}: {text}" for name, _, text in _STEPS[: number + 1])
            await scene.compact(f"Marta wants invoices to be right to the cent; keep the schema. So far: {done}")
            await session.append_context_block("notes", f"{file} is done.", author="coder")
    await session.freeze_system_prompt()
    await scene.user("Good. Squash it into one commit per file and write the changelog.")
    await scene.answer(
        "Six commits, each with its test. The changelog says what customers will notice: nothing but cents."
    )


async def _try_another_way(stage: Stage) -> None:
    """A fork: the same work, with the attempt that the first session gave up."""
    stage.go_back(minutes=35)
    session = await stage.manager.fork("billing-rounding", name="Credit notes with a new table", new_id="credit-notes")
    scene = Scene(stage, session, "gpt-5.4")
    await session.add_tags("idea")
    await scene.user("Only as a sketch: what would the new table for credit notes look like?")
    await scene.answer(
        "One row for each corrected line, never a negative invoice:\n\n```sql\ncreate table credit_note_lines (\n"
        "    invoice_line_id bigint not null references invoice_lines,\n"
        "    amount numeric(12, 2) not null check (amount > 0)\n);\n```\n\nThe sign moves into the query,"
        " and the discount cannot flip it any more."
    )


async def _answer_tickets(stage: Stage) -> None:
    """A support desk: refunded, waiting, suspended, ended."""
    stage.go_back(days=3, hours=2)
    key = SessionKey("support", "email", "joão@example.org")
    scene = await stage.open("Refund for a cancelled night", "refund-2201", key, model="gpt-5-mini", tags=["refund"])
    await scene.user("I cancelled in time and was charged anyway. Booking 2201. I want my money back.")
    booking = {"id": 2201, "cancelled_at": "2026-05-02T08:11:00Z", "free_until": "2026-05-03T18:00:00Z", "paid": 148}
    await scene.tool("get_booking", booking, id=2201)
    await scene.answer("You are right: you cancelled a day before the limit. I have asked for 148 euro back.")
    await scene.tool("refund", {"refund": "R-7710", "amount": 148, "currency": "EUR"}, booking=2201, amount=148)
    await scene.answer("Done: R-7710. The bank needs two to four days.")
    await scene.session.set_summary("148 euro refunded for booking 2201 (R-7710).")
    await stage.manager.archive("refund-2201")
    stage.go_back(days=2)
    blocked = await stage.open(
        "Chargeback dispute", "chargeback-9", SessionKey("support", "email", "legal"), tags=["risk"]
    )
    await blocked.user("The bank asks for the signed registration form of 12 March.")
    await blocked.answer("I found the form, but a person must release it. I pause here.")
    await stage.manager.suspend("chargeback-9")


async def _stand_up(stage: Stage) -> None:
    """A group chat: the peer is the group, and each message says who spoke."""
    stage.go_back(hours=5)
    key = SessionKey("standup", "slack", "#platform")
    scene = await stage.open("Platform stand-up", "standup", key, model="gpt-5-mini", tags=["team"], source="slack")
    said = (
        ("amina", "Migration of the ledger is through; replica lag is back to 40 ms."),
        ("jonas", "I am on the flaky checkout test. It is the clock again."),
        ("amina", "Then freeze it. @desk please note: no sleeps in tests."),
        ("sofía", "Cache hit rate of prompts went from 61 % to 93 % after we stopped re-rendering."),
    )
    for author, text in said:
        await scene.user(text, author=author)
    await scene.answer("Noted. Decisions: no sleeps in tests (Jonas). Figures: replica lag 40 ms, cache hits 93 %.")
    await scene.session.append_context_block("notes", "No sleeps in tests.", author="standup")


def _listing(file: str, function: str, lines: int) -> list[str]:
    head = [f"# billing/{file}", "from decimal import Decimal", "", f"def {function}(amount: Decimal) -> Decimal:"]
    body = [
        f"    step_{line} = amount.quantize(Decimal('0.{'0' * (line % 4)}1'))  # line {line}" for line in range(lines)
    ]
    return [*head, *body, f"    return step_{lines - 1}"]


def _test_report(file: str, *, failing: bool) -> str:
    name = file.split(".")[0]
    lines = [f"tests/test_{name}.py::test_{name}_{case} PASSED" for case in range(12)]
    if failing:
        lines[7] = f"tests/test_{name}.py::test_{name}_7 FAILED  assert Decimal('10.005') == Decimal('10.00')"
    return "\n".join([*lines, f"{11 if failing else 12} passed, {int(failing)} failed in 0.41s"])
