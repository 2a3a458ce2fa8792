"""Output: tables and verdicts on the terminal, all figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.targets import Outcome, Table, Target


def print_outcome(outcome: Outcome) -> None:
    for table in outcome.tables:
        print(f"\n{table.title}")
        _print_table(table)
    print()
    for target in outcome.targets:
        print(f"  {verdict(target)}")
    print(flush=True)


def _print_table(table: Table) -> None:
    ours = table[table.ours]
    lines = [("", "settings", "wall µs", "CPU µs", "wall", "CPU")]
    lines += [
        (
            timing.name,
            timing.settings,
            f"{timing.wall_us:,.1f}",
            f"{timing.cpu_us:,.1f}",
            f"{timing.wall_us / ours.wall_us:.2f}x",
            f"{timing.cpu_us / ours.cpu_us:.2f}x",
        )
        for timing in table.timings
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
        cells += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        print("  " + "  ".join(cells))
    print(f"  per {table.operation}; ratios against {table.ours}")


def verdict(target: Target) -> str:
    """One line: whether the target is met, by how much it is missed and why, and the value of the other measure."""
    sign = "<=" if target.kind == "at most" else ">="
    result = "PASS  " if target.met else "MISSED"
    measure, other = ("CPU", "wall") if target.measure == "cpu" else ("wall", "CPU")
    missed = "" if target.met else f": missed by {(target.used - 1) * 100:.0f} %"
    if not target.met and target.reason:
        missed += f" ({target.reason})"
    figures = f"{target.value:.2f}{target.unit}"
    if target.other is not None:
        figures += f" {measure} ({target.other:.2f}{target.unit} {other})"
    target_and_floor = f"target {sign} {target.limit:g}{target.unit}, floor about {target.floor:.3g}{target.unit}"
    return f"{result} {target.text}: {figures}, {target_and_floor}{missed}"


def print_summary(outcomes: Sequence[Outcome]) -> None:
    targets = [target for outcome in outcomes for target in outcome.targets]
    print("Targets")
    for target in targets:
        print(f"  {verdict(target)}")
    missed = sum(not target.met for target in targets)
    print(f"{len(targets) - missed} of {len(targets)} met, {missed} missed")


def write_json(path: Path, environment: dict[str, str], outcomes: Sequence[Outcome], seconds: float) -> None:
    rows = {
        outcome.name: {
            "tables": [asdict(table) for table in outcome.tables],
            "targets": [{**asdict(target), "met": target.met} for target in outcome.targets],
            "notes": outcome.notes,
        }
        for outcome in outcomes
    }
    found = {"environment": environment, "seconds": round(seconds), "rows": rows}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
