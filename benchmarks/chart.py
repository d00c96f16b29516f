"""The chart of docs/performance.md: `python benchmarks/chart.py` writes docs/figures/cost.svg from files of results.

Each row is a figure of docs/performance/listener.md: its median, and its range over all rounds.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
CHART: Final = ROOT / "docs" / "figures" / "cost.svg"
# The figure, its file, what it is and beside what.
ROWS: Final = {
    "listener-get-uvicorn": ("2026-11-29-epyc-2cpu-listener", "GET 1 KiB, signed", "bare uvicorn"),
    "get-10mib-nginx": ("2026-11-30-epyc-2cpu-protocols", "GET 10 MiB, every block verified", "nginx with sendfile"),
    "listener-put-uvicorn": ("2026-11-29-epyc-2cpu-listener", "PUT 1 KiB, signed, on disk", "bare uvicorn"),
    "put-10mib-cpu": ("2026-11-30-epyc-2cpu-uploads", "PUT 10 MiB, on disk", "its MD5 alone"),
}
WIDTH, LEFT, RIGHT, TOP, STEP, RATIO_MAX = 760, 330, 30, 74, 46, 5


def at(ratio: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * ratio / RATIO_MAX


def text(x: float, y: float, said: str, *, size: int = 15, anchor: str = "start", colour: str = "#222") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'


def row(y: float, name: str, against: str, figure: dict[str, Any]) -> list[str]:
    low, middle, high = (at(figure[key]) for key in ("min", "median", "max"))
    return [
        text(LEFT - 14, y - 3, name, anchor="end"),
        text(LEFT - 14, y + 14, f"÷ {against}", size=13, anchor="end", colour="#666"),
        f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" stroke="#8fb3d9" stroke-width="5"/>',
        f'<circle cx="{middle:.1f}" cy="{y}" r="7" fill="#1f5f9e"/>',
        text(middle, y - 13, f"{figure['median']:.2f}", size=14, anchor="middle"),
    ]


def chart() -> str:
    """The chart as SVG."""
    documents = {
        file: json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8")) for file, _, _ in ROWS.values()
    }
    bottom = TOP + STEP * len(ROWS)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 66}" '
        f'viewBox="0 0 {WIDTH} {bottom + 66}" font-family="sans-serif" role="img">'
    )
    parts = [
        svg,
        "<title>Processor time of a request to Orcas, divided by that of what limits it</title>",
        f'<rect width="{WIDTH}" height="{bottom + 66}" fill="#fff"/>',
        text(16, 28, "Processor time of a request to Orcas ÷ that of what limits it", size=17),
        text(16, 48, "Dot: median. Bar: least to most of all rounds. Left is better.", size=13, colour="#666"),
    ]
    for ratio in range(RATIO_MAX + 1):
        x, width = at(ratio), 2 if ratio == 1 else 1
        colour = "#222" if ratio == 1 else "#ddd"
        parts.append(
            f'<line x1="{x:g}" y1="{TOP - 12}" x2="{x:g}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>'
        )
        parts.append(text(x, bottom + 18, f"{ratio}", size=13, anchor="middle", colour="#666"))
    for number, (name, (file, what, against)) in enumerate(ROWS.items()):
        (figure,) = (figure for figure in documents[file]["figures"] if figure["name"] == name)
        parts += row(TOP + STEP * number + 20, what, against, figure)
    all_found = [document["circumstances"] for document in documents.values()]
    days = " and ".join(sorted({found["at"][:10] for found in all_found}))
    (machine,) = {f"{found['cpu']}, {found['cpus']} CPUs, {found['file_system']}" for found in all_found}
    where = f"{days}, {machine}"
    parts += [
        text(16, bottom + 42, f"{where}. Method: docs/benchmarks.md", size=12, colour="#666"),
        text(16, bottom + 58, "Both sides alternately in each round; 1 KiB over 16 connections, 10 MiB over one.",
             size=12, colour="#666"),
        "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(chart(), encoding="utf-8")
