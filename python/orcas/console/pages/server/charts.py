"""Charts as SVG of our own, with what they show as a text alternative. Pure.

Sizes and colours are attributes and classes, as the policy of the pages allows no inline style.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

WIDTH = 600
HEIGHT = 120

Numbers = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart. None in `values` is a gap."""

    name: str
    values: Numbers

    @property
    def known(self) -> list[float]:
        """The values that are there."""
        return [value for value in self.values if value is not None]

    @property
    def last(self) -> float | None:
        """The newest value, if it is known."""
        return self.values[-1] if self.values else None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart over time with its text alternative."""

    title: str
    svg: Markup
    top: str
    # Name, class of the line, and the newest value in words.
    legend: list[tuple[str, str, str]]


def line_chart(
    title: str, times: Sequence[float], span: float, series: Sequence[Series], words: Callable[[float], str]
) -> Chart:
    """The lines of `series` over the last `span` seconds before the newest of `times`. `words`: a value for people."""
    top = max((value for entry in series for value in entry.known), default=0.0)
    end = times[-1] if times else 0.0
    # A longer time without a sample is a gap.
    apart = 2.5 * min((later - time for time, later in pairwise(times)), default=10.0)
    places = [(time - end + span) / span * WIDTH for time in times]
    lines = Markup("").join(
        Markup('<path class="line line-{}" d="{}"/>').format(number, _path(times, places, entry.values, top, apart))
        for number, entry in enumerate(series)
    )
    said = "; ".join(f"{entry.name}: {_in_words(entry, words)}" for entry in series)
    svg = Markup(
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<path class="grid" d="M0 {}H{}M0 {}H{}M0 1H{}"/>{}</svg>'
    ).format(f"{title}. {said}.", WIDTH, HEIGHT, HEIGHT - 1, WIDTH, HEIGHT // 2, WIDTH, WIDTH, lines)
    shown = [
        (entry.name, f"line-{number}", "—" if entry.last is None else words(entry.last))
        for number, entry in enumerate(series)
    ]
    return Chart(title, svg, words(top), shown)


def _in_words(series: Series, words: Callable[[float], str]) -> str:
    if not series.known:
        return "nothing known"
    last = "not known" if series.last is None else words(series.last)
    return f"now {last}, from {words(min(series.known))} to {words(max(series.known))}"


def _path(times: Sequence[float], places: Sequence[float], values: Numbers, top: float, apart: float) -> str:
    parts: list[str] = []
    before: float | None = None
    for time, x, value in zip(times, places, values, strict=True):
        if value is None:
            before = None
            continue
        y = HEIGHT - 1 - (value / top if top > 0 else 0) * (HEIGHT - 2)
        goes_on = before is not None and time - before <= apart
        # A single value would be a line without length: it gets a short one.
        parts.append(f"{'L' if goes_on else 'M'}{x:.0f} {y:.0f}" + ("" if goes_on else "h.5"))
        before = time
    return "".join(parts)


def bar(value: float, most: float, name: str = "") -> Markup:
    """A bar of a table, as long as `value` of `most`. The number stands beside it, so it has no text of its own."""
    share = 0.0 if most <= 0 else max(0.0, min(1.0, value / most))
    return Markup(
        '<svg class="bar" aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none">'
        '<rect class="{}" width="{:.2f}" height="10"/></svg>'
    ).format(name or "part-0", share * 100)


def stacked(title: str, parts: Sequence[tuple[str, float]], words: Callable[[float], str]) -> Markup:
    """One bar that is divided into named parts."""
    whole = sum(value for _, value in parts)
    at, pieces = 0.0, []
    for number, (_, value) in enumerate(parts):
        wide = value / whole * 1000 if whole else 0.0
        pieces.append(Markup('<rect class="part-{}" x="{:.2f}" width="{:.2f}" height="40"/>').format(number, at, wide))
        at += wide
    said = ", ".join(f"{name} {words(value)}" for name, value in parts)
    return Markup(
        '<svg class="stacked" role="img" aria-label="{}" viewBox="0 0 1000 40" preserveAspectRatio="none">{}</svg>'
    ).format(f"{title}: {said}.", Markup("").join(pieces))
