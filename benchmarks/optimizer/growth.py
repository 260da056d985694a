"""How cost grows with the shape at a constant number of entries: a plot on two logarithmic axes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from optimizer.contest import Result

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 460, 70, 50, 40, 190
COLOURS = ("#1f5fa8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#16798c")
_NAME = re.compile(r"(?P<family>.+) (?P<count>\d+)(?P<unit>[kM])$")
Points = list[tuple[float, float]]
Place = Callable[[float, float], tuple[float, float]]


def families(rows: Sequence[Result]) -> dict[str, Points]:
    """Side and best milliseconds of the cases that differ in their side alone."""
    found: dict[str, Points] = {}
    for row in rows:
        name = _NAME.match(row.name)
        if name and row.ours:
            side = int(name["count"]) * {"k": 1e3, "M": 1e6}[name["unit"]]
            found.setdefault(name["family"], []).append((side, min(row.ours.values()) * 1e3))
    return {k: sorted(v) for k, v in found.items() if len(v) > 2}


def svg(lines: Mapping[str, Points]) -> str:
    """Times by side, and for comparison what a cost in proportion to all cells would be."""
    points = [p for line in lines.values() for p in line]
    xs = [math.log10(x) for x, _ in points]
    ys = [math.log10(y) for _, y in points]
    x0, x1, y0, y1 = math.floor(min(xs)), math.ceil(max(xs)), math.floor(min(ys)), math.ceil(
        max(ys)) + 1

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        up = (math.log10(y) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
        return LEFT + across, HEIGHT - BOTTOM - up

    parts = [_grid(x0, x1, y0, y1, place)]
    for k, (name, line) in enumerate(sorted(lines.items())):
        colour = COLOURS[k % len(COLOURS)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (place(*p) for p in line))
        end = place(*line[-1])
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>'
                  for a, b in (place(*p) for p in line)]
        parts.append(_text(end[0] + 8, end[1] + 4, name, "start", colour))
    start = min(points)
    top = 10.0 ** ((y1 - math.log10(start[1])) / 2) * start[0]
    (a, b), (c, d) = place(*start), place(top, 10.0**y1)
    parts.append(f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="#888" '
                 'stroke-dasharray="5 4"/>')
    parts.append(_text(c + 6, d + 14, "in proportion to m*n", "start", "#666"))
    parts.append(_text(LEFT, 22, "milliseconds by number of rows and columns, 1,000,000 entries",
                       "start", "#222"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
            'fill="white"/>' + "".join(parts) + "</svg>\n")


def _grid(x0: int, x1: int, y0: int, y1: int, at: Place) -> str:
    parts = []
    for k in range(x0, x1 + 1):
        a, b = at(10.0**k, 10.0**y0)
        parts.append(f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{a:.1f}" y2="{TOP}" stroke="#ddd"/>')
        parts.append(_text(a, b + 18, f"1e{k}", "middle", "#444"))
    for k in range(y0, y1 + 1):
        a, b = at(10.0**x0, 10.0**k)
        parts.append(f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{WIDTH - RIGHT}" y2="{b:.1f}" '
                     'stroke="#ddd"/>')
        parts.append(_text(a - 6, b + 4, f"{10.0**k:g}", "end", "#444"))
    return "".join(parts)


def _text(x: float, y: float, words: str, anchor: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'
