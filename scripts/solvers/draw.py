"""The two figures of `scripts/walls` as SVG text, with nothing beyond the standard library.

The harness draws the same figures from a run's records; these are drawn from instances alone.
"""

import math

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 70
COLOURS = {"treewidth": "#d55e00", "maxsat": "#0072b2", "exact": "#009e73"}
DASHES = {"treewidth": "9 5", "maxsat": "3 3", "exact": ""}
FONT = 'font-family="sans-serif" font-size="13"'


def _text(x, y, text, anchor="middle", extra=""):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {FONT} {extra}>{escaped}</text>'


def _line(x1, y1, x2, y2, colour="#000", width=1):
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _page(parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *parts, "</svg>", ""])


def _frame(x_label, y_label, y_ticks, y_at):
    """Axes, grid lines at the y ticks, labels."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value, text in y_ticks:
        parts.append(_line(LEFT, y_at(value), right, y_at(value), "#ddd"))
        parts.append(_text(LEFT - 8, y_at(value) + 4, text, "end"))
    parts += [_line(LEFT, TOP, LEFT, bottom), _line(LEFT, bottom, right, bottom)]
    parts.append(_text((LEFT + right) / 2, bottom + 40, x_label))
    middle = (TOP + bottom) / 2
    parts.append(_text(18, middle, y_label, extra=f'transform="rotate(-90 18 {middle:.1f})"'))
    return parts


def runtime(curves, instances, limit):
    """Seconds (logarithmic) within which a share of the instances is proven, a step curve per strategy."""
    every = [t for times in curves.values() for t in times]
    low = math.floor(math.log10(max(1e-6, min(every, default=1e-3))))
    high = math.ceil(math.log10(max(limit, *every, 10 ** (low + 1))))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x_at(share):
        return LEFT + share * (right - LEFT)

    def y_at(exponent):
        return bottom - (exponent - low) / (high - low) * (bottom - TOP)

    ticks = [(e, f"1e{e}" if e < -2 or e > 3 else f"{10.0**e:g}") for e in range(low, high + 1)]
    parts = _frame("instances proven optimal (%)", "solving time (s)", ticks, y_at)
    parts += [_text(x_at(s / 100), bottom + 18, str(s)) for s in range(0, 101, 20)]
    at_limit = y_at(math.log10(limit))
    parts.append(_line(LEFT, at_limit, right, at_limit, "#888"))
    parts.append(_text(right, at_limit - 5, f"limit {limit:g} s", "end"))
    x = LEFT
    for name, times in curves.items():
        colour, dash = COLOURS.get(name, "#555"), DASHES.get(name, "")
        points = []
        for rank, taken in enumerate(times):
            y = y_at(math.log10(max(taken, 10.0**low)))
            points += [f"{x_at(rank / instances):.1f} {y:.1f}", f"{x_at((rank + 1) / instances):.1f} {y:.1f}"]
        style = f'fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"'
        if points:
            parts.append(f'<path d="M{"L".join(points)}" {style}/>')
        parts.append(f'<path d="M{x} 24L{x + 36} 24" {style}/>')
        label = f"{name}, {len(times)} of {instances}"
        parts.append(_text(x + 42, 28, label, "start"))
        x += 60 + 8 * len(label)
    return _page(parts)


def histogram(counts, note):
    """Instances by width: dark where it is exact, light where it is an upper bound."""
    low, high = min(counts, default=0), max(counts, default=0)
    most = max((exact + open_ for exact, open_ in counts.values()), default=1)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    step = (right - LEFT) / (high - low + 1)

    def y_at(count):
        return bottom - count / (most * 1.1) * (bottom - TOP)

    every = max(1, math.ceil(most / 6))
    ticks = [(count, str(count)) for count in range(0, most + 1, every)]
    parts = _frame("treewidth", "instances", ticks, y_at)
    for width in range(low, high + 1):
        exact, open_ = counts.get(width, (0, 0))
        x = LEFT + (width - low + 0.12) * step
        for base, count, colour in [(0, exact, "#0072b2"), (exact, open_, "#9fc9e4")]:
            if count:
                top = y_at(base + count)
                size = f'width="{0.76 * step:.1f}" height="{y_at(base) - top:.1f}"'
                parts.append(f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{colour}"/>')
        parts.append(_text(x + 0.38 * step, bottom + 18, str(width)))
    parts.append(_text(LEFT, 20, note, "start"))
    parts.append(_text(LEFT, 38, "dark: exact; light: upper bound, not known to be met", "start"))
    return _page(parts)
