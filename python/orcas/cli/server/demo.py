"""`orcas demo`: a bucket with something in it to look at."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import struct
import zlib
from typing import Annotated, Final

import typer

from orcas.cli.options import Data, Endpoint, Where
from orcas.cli.output import say
from orcas.cli.store.upkeep import opened_for_objects
from orcas.errors import OrcasError

_DAYS: Final = 365
_WIDTH: Final = 320
_HEIGHT: Final = 200
_README: Final = """# Demo

reports/   a report with three versions, and one that was deleted
tables/    daily figures of a year, as CSV
pictures/  a PNG image
logs/      twelve small files, one for each month

Look at the versions: aws s3api list-object-versions --bucket {bucket} --prefix reports/
Remove it all:        orcas rb s3://{bucket} --force --all-versions
"""
_VERSIONING: Final = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


def demo(
    bucket: Annotated[str, typer.Argument(metavar="[BUCKET]", help="The bucket to create.")] = "demo",
    data: Data = None,
    endpoint: Endpoint = None,
) -> None:
    """Create a bucket with a few files, a table, an image and some versions, to look at and to try things on.

    A bucket of this name that exists must be empty.

    Example:

        orcas demo
    """
    from orcas.tools.objects import listed, refusal
    from orcas.tools.session import RefusedError

    with opened_for_objects(Where(data, endpoint)) as session:

        def put(path: str, body: bytes, query: str = "", kind: str = "") -> None:
            extra = [(b"content-type", kind.encode())] if kind else []
            with session.request("PUT", f"/{bucket}{path}", query, body, extra) as answer:
                if answer.status not in (200, 409):
                    code, message = refusal(answer)
                    raise RefusedError(
                        answer.status,
                        f"{bucket}{path} cannot be stored ({message}): correct that, and run the command again.",
                        code,
                    )
                answer.read()

        put("", b"")
        if next(listed(session, bucket), None) is not None:
            raise OrcasError(f"The bucket {bucket} is not empty: name another one.")
        put("", _VERSIONING.encode(), "versioning=")
        put("/README.md", _README.format(bucket=bucket).encode(), kind="text/markdown; charset=utf-8")
        for version in ("First draft.", "Second draft, with figures.", "Final."):
            put("/reports/2026/summary.txt", f"{version}\n".encode(), kind="text/plain; charset=utf-8")
        put("/reports/2026/withdrawn.txt", b"Nobody should read this.\n", kind="text/plain; charset=utf-8")
        put("/tables/daily.csv", _table(), kind="text/csv")
        put("/pictures/waves.png", _picture(), kind="image/png")
        for month in range(1, 13):
            put(f"/logs/2026/{month:02}.log", f"2026-{month:02}-01 all is well\n".encode() * 20, kind="text/plain")
        with session.request("DELETE", f"/{bucket}/reports/2026/withdrawn.txt") as answer:
            answer.read()
    say(f"bucket {bucket} created; try: orcas ls -r s3://{bucket}")


def _table() -> bytes:
    """A row for each day, with values that look like something."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(("day", "visitors", "orders", "revenue"))
    for number in range(_DAYS):
        day = dt.date(2026, 1, 1) + dt.timedelta(days=number)
        visitors = round(1_000 + 300 * math.sin(number / 29) - 200 * (day.weekday() >= 5))
        orders = visitors // 25 + number % 7
        rows.writerow((day.isoformat(), visitors, orders, f"{orders * 23.5:.2f}"))
    return out.getvalue().encode()


def _picture() -> bytes:
    """A PNG image, in grey."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    def shade(x: int, y: int) -> int:
        return round(127.5 * (1 + math.sin(x / 17) * math.cos(y / 11)))

    lines = b"".join(b"\0" + bytes(shade(x, y) for x in range(_WIDTH)) for y in range(_HEIGHT))
    header = struct.pack(">IIBBBBB", _WIDTH, _HEIGHT, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(demo)
