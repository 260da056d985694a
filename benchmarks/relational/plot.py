"""Lines on two logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 250, 40, 50
COLOURS = ("#1f5fa8", "#c0392b", "#2e8b57", "#8e44ad")
Points = list[tuple[float, float]]


def svg(lines: Mapping[str, Points], title: str) -> str:
    """The lines, and a dashed one of cost in proportion."""
    xs, ys = zip(*[(math.log10(x), math.log10(y)) for line in lines.values() for x, y in line])
    x0, x1 = math.floor(min(xs)), math.ceil(max(xs))
    y0, y1 = math.floor(min(ys)), math.ceil(max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        return (LEFT + (math.log10(x) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (math.log10(y) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM))

    parts = [_text(LEFT, 22, title, "start")]
    for power in range(x0, x1 + 1):
        a, b = place(10.0**power, 10.0**y0)
        parts += [_line([(a, b), (a, TOP)], "#ddd"), _text(a, b + 18, f"1e{power}", "middle")]
    for power in range(y0, y1 + 1):
        a, b = place(10.0**x0, 10.0**power)
        parts += [_line([(a, b), (WIDTH - RIGHT, b)], "#ddd"),
                  _text(a - 8, b + 4, f"1e{power}", "end")]
    for colour, (name, line) in zip(COLOURS, lines.items()):
        points = [place(*p) for p in line]
        parts += [_line(points, colour), _text(points[-1][0] + 8, points[-1][1] + 4, name,
                                               "start")]
    x, y = next(iter(lines.values()))[0]
    factor = min(10.0**x1 / x, 10.0**y1 / y)
    parts.append(_line([place(x, y), place(x * factor, y * factor)], "#888", "5 4"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
            'fill="white"/>' + "".join(parts) + "</svg>\n")


def _line(points: Points, colour: str, dashes: str = "") -> str:
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return (f'<polyline points="{path}" fill="none" stroke="{colour}" '
            f'stroke-dasharray="{dashes}"/>')


def _text(x: float, y: float, words: str, anchor: str) -> str:
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222">{safe}</text>'
