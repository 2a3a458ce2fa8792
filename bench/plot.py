"""The picture of a run: what each contender costs against Frontdesk, and how much of each target's room is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

from bench.targets import Outcome, Table, Target

_OURS, _YARDSTICK, _PEER, _MISSED = "#0b7a75", "#9aa5b1", "#c8553d", "#b00020"
_LINE = 0.27
_HEADER = 0.55


def draw(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the picture: one panel for each table, and one for the targets."""
    tables = [table for outcome in outcomes for table in outcome.tables]
    targets = [target for outcome in outcomes for target in outcome.targets]
    heights = [len(table.timings) * _LINE + _HEADER for table in tables] + [len(targets) * _LINE + _HEADER]
    figure, axes = plt.subplots(
        len(heights),
        figsize=(11, sum(heights) + 0.6),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
    )
    figure.suptitle("Frontdesk beside raw SQL and its peers: wall time per operation", fontweight="bold")
    for axis, table in zip(axes[:-1, 0], tables, strict=True):
        _draw_table(axis, table)
    _draw_targets(axes[-1, 0], targets)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_table(axis: Any, table: Table) -> None:
    ours = table[table.ours].wall_us
    ratios = [timing.wall_us / ours for timing in table.timings]
    labels = [f"{ratio:.2g}x   {_time(timing.wall_us)}" for ratio, timing in zip(ratios, table.timings, strict=True)]
    _bars(axis, [timing.name for timing in table.timings], ratios, labels, [_colour(t.name) for t in table.timings])
    axis.set_title(f"{table.title}; 1 = {table.ours}", loc="left", fontsize=9)


def _draw_targets(axis: Any, targets: Sequence[Target]) -> None:
    labels = [
        f"{target.value:.2f}{target.unit}, {target.kind} {target.limit:g}{target.unit}{'' if target.met else ' MISSED'}"
        for target in targets
    ]
    colours = [_OURS if target.met else _MISSED for target in targets]
    _bars(axis, [target.text for target in targets], [target.used for target in targets], labels, colours)
    axis.set_title("targets: the part of the allowance that is used (beyond 1: missed)", loc="left", fontsize=9)


def _bars(axis: Any, names: list[str], values: list[float], labels: list[str], colours: list[str]) -> None:
    """Bars from 1 to the left or to the right, on a scale where twice and half are equally long."""
    axis.set_xscale("log")
    bars = axis.barh(range(len(names)), [value - 1 for value in values], left=1, color=colours, height=0.7)
    axis.bar_label(bars, labels, fontsize=8, padding=4)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlim(min(*values, 0.5) / 4, max(*values, 2) * 6)
    axis.tick_params(axis="x", labelsize=7)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _colour(name: str) -> str:
    if name.startswith("Frontdesk"):
        return _OURS
    return _YARDSTICK if name.startswith(("raw", "asyncpg")) else _PEER


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"
