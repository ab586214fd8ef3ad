"""Charts as inline SVG: the geometry is worked out here, `templates/chart.html` draws it.

Colours are classes that the page's style fills, so one drawing serves the dark and the light page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lopd_gym.report.html import render
from lopd_gym.stats import Interval

Point = tuple[float, float]
_MAX_POINTS = 200
_MAX_DOTS = 40


@dataclass(frozen=True, slots=True)
class Series:
    """One line, in the colour of this number; ``band`` holds (low, high) at each of its points."""

    label: str
    points: Sequence[Point]
    colour: int = 0
    dashed: bool = False
    band: Sequence[Point] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a chart in its own units, and what its edges stand for."""

    width: float
    height: float
    x: Point
    y: Point
    left: float = 50
    right: float = 18
    top: float = 10
    bottom: float = 40

    def place(self, x: float, y: float) -> Point:
        """Return where a value is drawn; values outside the frame are drawn at its edge."""
        across = _share(x, self.x) * (self.width - self.left - self.right)
        up = _share(y, self.y) * (self.height - self.top - self.bottom)
        return round(self.left + across, 1), round(self.height - self.bottom - up, 1)

    def path(self, points: Sequence[Point]) -> str:
        """Return the path of a line through points."""
        return "M" + "L".join(f"{x} {y}" for x, y in (self.place(*point) for point in points))


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    y_range: Point | None = None,
    level: float | None = None,
    shaded: Point | None = None,
    small: bool = False,
) -> Markup:
    """Draw lines over a shared axis; points that are not finite are left out.

    Args:
        series: The lines.
        title: What the chart shows, for readers who do not see it.
        x_label: Name of the horizontal axis.
        y_label: Name of the vertical axis.
        y_range: Ends of the vertical axis; by default those of the values.
        level: Where a dotted horizontal line is drawn.
        shaded: A stretch of the horizontal axis with a grey ground.
        small: Whether the chart is one of many.
    """
    shown = [_thinned(_finite(line)) for line in series]
    xs = [x for line in shown for x, _ in line.points] + list(shaded or ())
    ys = [y for line in shown for _, y in line.points]
    if not ys:
        return Markup()
    x_ticks = _ticks(min(xs), max(xs), 3 if small else 6)
    y_ticks = _ticks(*(y_range or (min(ys), max(ys))), 3 if small else 5)
    wide, high = (260, 130) if small else (520, 280)
    x_ends = (min(xs), max(xs)) if max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    frame = Frame(wide, high, x_ends, y_range or (y_ticks[0], y_ticks[-1]))
    if small:
        frame = Frame(wide, high, frame.x, frame.y, bottom=22)
    return render(
        "chart.html",
        frame=frame,
        title=title,
        x_label=x_label,
        y_label=y_label,
        x_ticks=[(frame.place(x, frame.y[0])[0], f"{x:g}") for x in x_ticks if _within(x, frame.x)],
        y_ticks=[(frame.place(frame.x[0], y)[1], f"{y:g}") for y in y_ticks if _within(y, frame.y)],
        lines=[_drawn(line, frame) for line in shown if line.points],
        level=None if level is None else frame.place(frame.x[0], level)[1],
        shaded=None if shaded is None else [frame.place(x, frame.y[0])[0] for x in shaded],
        legend=len(series) > 1,
    )


def interval_bar(value: Interval, scale: Point, colour: int = 0) -> Markup:
    """Draw an interval as a dot with whiskers, to stand in a table's cell; 0 is marked."""
    at = {name: round(100 * _share(getattr(value, name), scale), 2) for name in value.__slots__}
    zero = 100 * _share(0.0, scale) if scale[0] < 0 < scale[1] else None
    return render("interval.html", at=at, zero=zero, colour=colour)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One evaluation in a map of tasks: for each task, True, False, or None where it failed."""

    label: str
    solved: Sequence[bool | None]


def task_map(rows: Sequence[TaskRow], title: str) -> Markup:
    """Draw one square for each task and evaluation."""
    count = max(len(row.solved) for row in rows)
    drawn = []
    for number, row in enumerate(rows):
        kinds: dict[str, str] = {}
        for column, solved in enumerate(row.solved):
            kind = "broken" if solved is None else "solved" if solved else "missed"
            kinds[kind] = kinds.get(kind, "") + f"M{column} {number}h1v1h-1z"
        drawn.append({"label": row.label, "paths": kinds})
    return render("task_map.html", rows=drawn, count=count, title=title)


def _drawn(line: Series, frame: Frame) -> dict[str, object]:
    dots = [(*frame.place(*p), f"{line.label}: {p[1]:.4g} at {p[0]:g}") for p in line.points]
    band = ""
    if line.band:
        ends = zip(line.points, line.band, strict=True)
        edges = [((x, low), (x, high)) for (x, _), (low, high) in ends]
        outline = [low for low, _ in edges] + [high for _, high in reversed(edges)]
        band = frame.path(outline) + "Z"
    return {
        "label": line.label,
        "colour": line.colour % 8,
        "dashed": line.dashed,
        "path": frame.path(line.points),
        "band": band,
        "dots": dots if len(dots) <= _MAX_DOTS else (),
    }


def _finite(line: Series) -> Series:
    keep = [n for n, point in enumerate(line.points) if all(map(math.isfinite, point))]
    band = [line.band[n] for n in keep] if line.band else ()
    return Series(line.label, [line.points[n] for n in keep], line.colour, line.dashed, band)


def _thinned(line: Series) -> Series:
    """Average neighbours, so that a long run's line stays a small drawing."""
    every = math.ceil(len(line.points) / _MAX_POINTS)
    if every <= 1 or line.band:
        return line
    parts = [line.points[n : n + every] for n in range(0, len(line.points), every)]
    means = [(sum(x for x, _ in p) / len(p), sum(y for _, y in p) / len(p)) for p in parts]
    return Series(line.label, means, line.colour, line.dashed)


def _ticks(low: float, high: float, count: int) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    return [float(tick) for tick in MaxNLocator(count).tick_values(low, high)]


def _share(value: float, ends: Point) -> float:
    low, high = ends
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _within(value: float, ends: Point) -> bool:
    slack = 1e-9 * (ends[1] - ends[0])
    return ends[0] - slack <= value <= ends[1] + slack
