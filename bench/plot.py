"""A picture of distributions, drawn by hand as SVG: share of all over a logarithmic scale."""

import math
from collections.abc import Sequence
from html import escape

from bench.results import Curve

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 52
_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#8a6d1f", "#444444")
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
_POINTS = 100


def curve_of(label: str, values: Sequence[float]) -> Curve:
    """Return the distribution of values by some hundred of its points."""
    ordered = sorted(values)
    if not ordered:
        return Curve(label, [])
    count = len(ordered)
    places = sorted({math.ceil(step * count / _POINTS) or 1 for step in range(_POINTS + 1)})
    return Curve(label, [[round(ordered[at - 1], 6), round(at / count, 6)] for at in places])


def draw(curves: Sequence[Curve], unit: str) -> str:
    """Return the curves as one SVG; a point (x, y) says that a share y took at most x."""
    drawn = [curve for curve in curves if curve.points]
    values = [max(point[0], _floor(drawn)) for curve in drawn for point in curve.points]
    low = math.floor(math.log10(min(values, default=0.001)))
    high = max(math.ceil(math.log10(max(values, default=1.0))), low + 1)
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        *_grid(low, high, unit),
    ]
    for number, curve in enumerate(drawn):
        parts += _line(curve, number, (low, high))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _floor(curves: Sequence[Curve]) -> float:
    """Return what stands for zero, which a logarithmic scale does not have."""
    above = [point[0] for curve in curves for point in curve.points if point[0] > 0]
    return min(above, default=0.001)


def _x(value: float, span: tuple[int, int]) -> float:
    share = (math.log10(value) - span[0]) / (span[1] - span[0])
    return _LEFT + min(max(share, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _grid(low: int, high: int, unit: str) -> list[str]:
    parts = []
    for power in range(low, high + 1):
        x, text = _x(10.0**power, (low, high)), f"{10.0**power:g} {unit}"
        parts.append(
            f'<path d="M{x:.1f} {_y(1):.1f}V{_y(0):.1f}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{_y(0) + 18:.1f}" text-anchor="middle">{text}</text>'
        )
    for share in _SHARES:
        y = _y(share)
        parts.append(
            f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    return parts


def _line(curve: Curve, number: int, span: tuple[int, int]) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    least = 10.0 ** span[0]
    points = " ".join(f"{_x(max(x, least), span):.1f},{_y(y):.1f}" for x, y in curve.points)
    x = _LEFT + 8 + number % 3 * 220
    y = _HEIGHT - _BOTTOM + 34 + number // 3 * 14
    return [
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<rect x="{x}" y="{y - 9}" width="12" height="4" fill="{colour}"/>',
        f'<text x="{x + 18}" y="{y - 3}">{escape(curve.label)}</text>',
    ]
