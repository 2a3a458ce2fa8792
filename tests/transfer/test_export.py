"""An export holds everything, and its import makes exactly the same namespace in any store."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frontdesk import InvalidInputError, SessionKey, SessionManager
from tests.servers.postgres import PostgresServer
from tests.transfer.histories import Writer, configured, observe

_examples = count()


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


async def exported(manager: SessionManager) -> list[bytes]:
    return [line async for line in manager.export()]


_on_every_store = pytest.mark.parametrize("origin", ["memory", "sqlite", "postgres"])
_unhealthy = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@_on_every_store
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=4, suppress_health_check=_unhealthy)
async def test_an_imported_export_is_the_same_in_every_store(
    tmp_path: Path, database: str, origin: str, seed: int
) -> None:
    await _check_round_trip(tmp_path, database, origin, seed)


@pytest.mark.long
@_on_every_store
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=30, suppress_health_check=_unhealthy)
async def test_many_exports_are_the_same_in_every_store(tmp_path: Path, database: str, origin: str, seed: int) -> None:
    await _check_round_trip(tmp_path, database, origin, seed)


async def _check_round_trip(tmp_path: Path, database: str, origin: str, seed: int) -> None:
    example = next(_examples)
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/{example}.db", "postgres": database}
    names = [origin, *(name for name in urls if name != origin), origin]
    async with AsyncExitStack() as stack:
        managers = []
        for number, name in enumerate(names):
            url = f"sqlite:///{tmp_path}/{example}-{number}.db" if name == "sqlite" else urls[name]
            managers.append(await stack.enter_async_context(configured(url, f"n{example}-{number}")))
        await Writer(managers[0], seed).write(40)
        seen = await observe(managers[0])
        lines = await exported(managers[0])
        for manager in managers[1:]:
            report = await manager.import_lines(lines)
            assert report.problems == ()
            assert (await exported(manager))[1:] == lines[1:]  # the first line names the namespace
            assert (await manager.import_lines(lines)).sessions == 0
            assert (await exported(manager))[1:] == lines[1:]
            assert await observe_alike(manager, managers[0].namespace) == seen
        # What was imported can be continued, and behaves the same from then on.
        for manager in (managers[0], managers[-1]):
            writer = Writer(manager, seed + 1)
            writer.count = 10_000
            await writer.write(15)
        first, last = [await observe_alike(manager, "n") for manager in (managers[0], managers[-1])]
        assert first["order"] == last["order"]
        for session_id in first["order"]:
            for path, other in zip(*(each[session_id]["paths"].values() for each in (first, last)), strict=True):
                assert [message.text for message in path] == [message.text for message in other]


async def observe_alike(manager: SessionManager, namespace: str) -> dict[str, Any]:
    """What is seen, as if it were in another namespace."""
    seen = await observe(manager)
    for session_id in seen["order"]:
        seen[session_id]["info"] = dataclasses.replace(seen[session_id]["info"], namespace=namespace)
    return seen


async def test_sessions_are_found_after_an_import_into_a_namespace_in_use(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        await source.append("new", {"role": "user", "content": "a walrus on the pier"})
        await target.append("old", {"role": "user", "content": "a heron in the reeds"})
        await target.append("new-2", {"role": "user", "content": "another"})
        assert len(await target.search("walrus")) == 0
        position = await target.position()
        await target.import_lines(await exported(source))
        assert [hit.session_id for hit in await target.search("walrus")] == ["new"]
        assert [hit.session_id for hit in await target.search("heron")] == ["old"]
        kinds = [event.kind async for event in target.events(after=position, follow=False)]
        assert kinds == ["session.created", "message.appended"]


async def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        await source.append("same", {"role": "user", "content": "theirs"})
        await source.append("other", {"role": "user", "content": "theirs"})
        await target.append("same", {"role": "user", "content": "ours"})
        report = await target.import_lines(await exported(source))
        assert (report.sessions, report.skipped) == (1, 1)
        assert [message.text for message in await target.history("same")] == ["ours"]


async def test_usage_totals_are_added_once(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        for manager, session_id in ((source, "a"), (target, "b")):
            await manager.append(session_id, {"role": "user", "content": "hi"})
            await manager.add_usage(session_id, input_tokens=10, cost="0.5", model="m")
        lines = await exported(source)
        for _ in range(2):
            await target.import_lines(lines)
            assert (await target.usage()).total.input_tokens == 20


async def test_broken_lines_are_reported_with_their_numbers_and_leave_out_one_family(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        for name in ("first", "second", "third"):
            await source.append(name, {"role": "user", "content": name})
        lines = await exported(source)
        at = next(number for number, line in enumerate(lines) if b'"content":"second"' in line)
        broken = [*lines]
        broken[at] = broken[at][:30] + b"\n"
        checked = await target.import_lines(broken, dry_run=True)
        report = await target.import_lines(broken)
        assert [(problem.line, problem.problem) for problem in report.problems] == [
            (at + 1, "the line is not JSON: it may have been cut off")
        ]
        assert checked == _dry(report)
        assert sorted([info.id async for info in target.iterate()]) == ["first", "third"]
        assert (await target.import_lines(lines)).sessions == 1


def _changed(lines: list[bytes], at: bytes, old: bytes, new: bytes) -> list[bytes]:
    return [line.replace(old, new) if at in line else line for line in lines]


_CONTENT = b'{"id":"second","role":"user","content":"second"}'
_DAMAGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "usage of a session elsewhere": lambda lines: _changed(lines, b'"usage"', b'"session":"second"', b'"session":"x"'),
    "a session that was not announced": lambda lines: _changed(lines, b'"family"', b'["second"]', b'["x"]'),
    "a place in a segment that is missing": lambda lines: _changed(lines, b'"id":"second"', b'"head":[1', b'"head":[2'),
    "a value without a meaning": lambda lines: _changed(lines, b'"raw"', _CONTENT, b'"second"'),
    "no end": lambda lines: [line for at, line in enumerate(lines) if at != lines.index(b'{"type":"end"}\n')],
}


@pytest.mark.parametrize("name", _DAMAGES)
async def test_lines_that_contradict_each_other_leave_out_one_family(tmp_path: Path, name: str) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        for session_id in ("second", "third") if name == "no end" else ("first", "second", "third"):
            await source.append(session_id, {"id": session_id, "role": "user", "content": session_id})
            await source.add_usage(session_id, input_tokens=10, model="m")
        lines = await exported(source)
        damaged = _DAMAGES[name](lines)
        assert damaged != lines
        checked = await target.import_lines(damaged, dry_run=True)
        report = await target.import_lines(damaged)
        assert checked == _dry(report)
        assert report.problems_total == 1
        assert "second" not in [info.id async for info in target.iterate()]
        assert (await target.check()).problems == ()
        assert (await target.import_lines(lines)).problems_total == 0
        assert (await target.check()).problems == ()


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/a.db"])
@pytest.mark.parametrize(("kind", "is_added"), [("overlay", False), ("edit", False), ("overlay", True), ("edit", True)])
async def test_an_overlay_or_edit_of_an_unknown_tree_or_a_known_number_leaves_out_its_family(
    tmp_path: Path, url: str, kind: str, is_added: bool
) -> None:
    async with configured("memory://") as source, configured(url.format(tmp_path)) as target:
        ids: list[str] = []
        for session_id in ("first", "second"):
            session = source.session(session_id)
            ids = [(await session.append({"role": "user", "content": text})).message.id for text in "abcd"]
            await session.add_compaction("Short.", ids[0], ids[1])
        fork = await source.fork("second")
        await fork.update_message({"id": ids[2], "role": "user", "content": "changed"})
        lines = await exported(source)
        at = max(number for number, line in enumerate(lines) if line.startswith(f'{{"type":"{kind}"'.encode()))
        strange = json.dumps({**json.loads(lines[at]), "tree": 99}).encode() + b"\n"
        lines[at : at + 1] = [lines[at], lines[at]] if is_added else [strange]
        checked = await target.import_lines(lines, dry_run=True)
        report = await target.import_lines(lines)
        assert checked == _dry(report)
        assert (report.sessions, report.problems[0].line) == (1, lines.index(b'{"type":"end"}\n', at) + 1)
        assert [info.id async for info in target.iterate()] == ["first"]
        assert (await target.check()).problems == ()


@pytest.mark.parametrize("name", ["a session that was not announced", "a value without a meaning"])
async def test_usage_of_what_was_left_out_is_added_once_it_is_imported(name: str) -> None:
    async with configured("memory://") as source, configured("memory://") as target:
        for session_id in ("first", "second", "deleted"):
            await source.append(session_id, {"id": session_id, "role": "user", "content": session_id})
            await source.add_usage(session_id, input_tokens=10, cost="0.5", model="m")
        await source.delete("deleted")
        lines = await exported(source)
        await target.import_lines(_DAMAGES[name](lines))
        total = (await target.usage()).total
        assert (total.input_tokens, total.cost) == (20, Decimal(1))
        await target.import_lines(lines)
        assert (await target.usage()).total == (await source.usage()).total


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_session_whose_key_is_taken_is_left_out_and_the_others_are_imported(store: str, tmp_path: Path) -> None:
    ana = SessionKey("concierge", "web", "ana")
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with configured("memory://") as source, configured(url) as target:
        await source.session(ana).append_all([{"role": "user", "content": str(n)} for n in range(600)])
        await source.append("other", {"role": "user", "content": "hi"})
        await target.session(ana).append({"role": "user", "content": "since then"})
        lines = await exported(source)
        checked = await target.import_lines(lines, dry_run=True)
        report = await target.import_lines(lines)
        assert checked == _dry(report)
        assert (report.sessions, report.problems_total) == (1, 1)
        assert "another session is under the key" in report.problems[0].problem
        assert [message.text for message in await target.session(ana).history()] == ["since then"]
        assert (await target.check()).problems == ()


async def test_a_line_that_is_missing_is_noticed() -> None:
    async with configured("memory://") as source, configured("memory://") as target:
        await source.append_all("a", [{"role": "user", "content": str(n)} for n in range(3)])
        lines = await exported(source)
        report = await target.import_lines([line for line in lines if b'"content":"1"' not in line])
        assert [problem.line for problem in report.problems] == [len(lines) - 1]
        assert f"{len(lines) - 1} lines come before it" in report.problems[0].problem


async def test_problems_are_counted_even_if_there_are_too_many_to_list() -> None:
    async with configured("memory://") as source, configured("memory://") as target:
        header, *rest = await exported(source)
        report = await target.import_lines([header, *[b"{\n"] * 1_200, *rest])
        assert (len(report.problems), report.problems_total) == (1_000, 1_200)


def _dry(report: object) -> object:
    return dataclasses.replace(report, dry_run=True)  # type: ignore[type-var]


async def test_a_file_that_was_cut_off_is_noticed(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        await source.append("a", {"role": "user", "content": "hi"})
        lines = await exported(source)
        assert "cut off" in (await target.import_lines(lines[:-1])).problems[0].problem
        for end in range(1, len(lines)):
            report = await target.import_lines(lines[:end], dry_run=True)
            assert report.problems
        with pytest.raises(InvalidInputError):
            await target.import_lines([b'{"type":"end"}\n'])
        newer = json.dumps({"type": "frontdesk", "version": 99, "namespace": "x"}).encode()
        with pytest.raises(InvalidInputError, match="version 99"):
            await target.import_lines([newer])


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        await Writer(source, 7).write(30)
        report = await target.import_lines(await exported(source), dry_run=True)
        assert report.sessions > 0
        assert (await exported(target))[1:-1] == []


async def test_a_shelf_is_imported_whole_or_not_at_all() -> None:
    async with SessionManager("memory://") as source, SessionManager("memory://") as target:
        for id in ("a", "b"):
            blobs = {f"{n:03}".encode(): b"x" * n for n in range(120)}
            await source.shelves("checkpoints").write(id, put=blobs)
        lines = await exported(source)
        cut = await target.import_lines(lines[:100])
        assert "middle of a shelf" in cut.problems[0].problem
        broken = await target.import_lines([*lines[:100], b"broken\n", *lines[101:]])
        assert (broken.shelves, len(broken.problems)) == (1, 1)
        assert [id async for id in target.shelves("checkpoints").ids()] == ["b"]
        assert (await target.import_lines(lines)).shelves == 1
        assert await exported(target) == lines
