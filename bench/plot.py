"""The chart of a run: the cost of each contender relative to Frontdesk, and each target as a share of its limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

from bench.targets import Outcome, Table, Target

_OURS, _YARDSTICK, _PEER, _MISSED = "#0b7a75", "#9aa5b1", "#c8553d", "#b00020"
_LINE, _HEADER, _TITLE = 0.24, 0.42, 0.9
_ROOM = 5
"""the factor by which the scale is extended, as room for the labels of the bars"""


def draw(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the chart: a panel for each table, all on one scale, and one for the targets."""
    tables = [table for outcome in outcomes for table in outcome.tables]
    targets = [target for outcome in outcomes for target in outcome.targets]
    heights = [len(panel) * _LINE + _HEADER for panel in [*(table.timings for table in tables), targets]]
    figure, axes = plt.subplots(
        len(heights), figsize=(11, sum(heights) + _TITLE), height_ratios=heights, layout="constrained", squeeze=False
    )
    figure.suptitle("Frontdesk, raw SQL and its peers: time per operation (further right is slower)", fontsize=11)
    ratios = [ratio for table in tables for ratio in _ratios(table)]
    for axis, table in zip(axes[:-1, 0], tables, strict=True):
        _draw_table(axis, table)
        axis.set_xlim(min(ratios) / _ROOM, max(ratios) * _ROOM)
    _draw_targets(axes[-1, 0], targets)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _ratios(table: Table) -> list[float]:
    ours = table[table.ours].by(table.measure)
    return [timing.by(table.measure) / ours for timing in table.timings]


def _draw_table(axis: Any, table: Table) -> None:
    labels = [
        f"{_short(ratio)}x   {_time(timing.by(table.measure))}"
        for ratio, timing in zip(_ratios(table), table.timings, strict=True)
    ]
    names = [timing.name for timing in table.timings]
    _bars(axis, names, _ratios(table), labels, [_colour(name) for name in names])
    axis.set_title(f"{table.title} ({'CPU' if table.measure == 'cpu' else 'wall'} time)", loc="left", fontsize=9)


def _draw_targets(axis: Any, targets: Sequence[Target]) -> None:
    labels = [
        f"{_short(target.value)}{target.unit}, {target.kind} {target.limit:g}{target.unit}"
        + ("" if target.met else " MISSED")
        for target in targets
    ]
    used = [target.used for target in targets]
    _bars(axis, [target.text for target in targets], used, labels, [_OURS if t.met else _MISSED for t in targets])
    axis.set_xlim(min(used) / _ROOM, max(used) * _ROOM)
    axis.set_title("targets: the value as a share of the limit (to the right: missed)", loc="left", fontsize=9)


def _bars(axis: Any, names: list[str], values: list[float], labels: list[str], colours: list[str]) -> None:
    """Draw bars from 1 to the left or right, on a logarithmic scale."""
    lines = range(len(names))
    axis.set_xscale("log")
    bars = axis.barh(lines, [value - 1 for value in values], left=1, color=colours, height=0.7)
    axis.scatter([1] * len(names), lines, color=colours, s=14, zorder=3)
    axis.bar_label(bars, labels, fontsize=8, padding=6)
    axis.set_yticks(lines, names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _colour(name: str) -> str:
    if name.startswith("Frontdesk"):
        return _OURS
    return _YARDSTICK if name.startswith(("raw", "asyncpg")) else _PEER


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"
