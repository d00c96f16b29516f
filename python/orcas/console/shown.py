"""How values from strangers and the store are shown: keys, sizes, times. Pure.

Keys may have any character. Those that cannot be seen, or that would reorder the text around them, are replaced by marks,
and the whole is isolated, so that what is on the screen is what the key says.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
# As lists of S3 have times.
_LISTED: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?Z")
# Characters that a cell of a table shows without being asked.
_LINE: Final = 40
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def _mark(character: str) -> str | None:
    """What stands for a character that cannot be seen; None if it can."""
    code = ord(character)
    if unicodedata.category(character) in _HIDDEN or (code > 0x20 and character.isspace()):
        return f"U+{code:04X}"
    return None


def key(text: str | None) -> Markup:
    """A key or any other text of strangers in one line, as HTML."""
    # Not `Markup.format`, which would take half of the time of a page with many rows.
    return Markup(f'<bdi class="key">{_marked(text or "")}</bdi>')  # noqa: S704 - escaped by `_marked`


def line(text: str | None) -> Markup:
    """A text in a cell of a table: what is long is cut, and there as a whole once it is opened."""
    if text is None or len(text) <= _LINE:
        return key(text)
    return Markup('<details class="long"><summary>{}</summary></details>').format(key(text))


def text(content: str) -> Markup:
    """A text of strangers that has lines and tabs, as HTML."""
    lines = [Markup("\t").join(_marked(part) for part in line.split("\t")) for line in content.splitlines()]
    return Markup('<bdi class="key">{}</bdi>').format(Markup("\n").join(lines))


def _marked(line: str) -> Markup:
    if line.isprintable():
        return escape(line)
    parts = []
    for character in line:
        mark = _mark(character)
        if mark is None:
            parts.append(escape(character))
        else:
            name = unicodedata.name(character, "control character")
            parts.append(Markup('<span class="mark" title="{}">{}</span>').format(name, mark))
    return Markup("").join(parts)


def plain(text: str) -> str:
    """A text of strangers as text alone, for titles and messages."""
    if text.isprintable():
        return text
    return "".join(character if (mark := _mark(character)) is None else f"[{mark}]" for character in text)


def attachment(key: str, suffix: str = "") -> str:
    """The header Content-Disposition with which browsers save an object as a file of its name."""
    name = re.sub(r'[\x00-\x1f\x7f"\\/]', "_", key[key.rfind("/") + 1 :]) or "object"
    return f"attachment; filename*=UTF-8''{quote(name + suffix, safe='')}"


def size(count: int | str | None) -> str:
    """Bytes in the largest unit of which there is one."""
    if count is None or count == "":
        return "—"
    count, power = int(count), 0
    while count >> 10 * (power + 1) and power < len(_UNITS):
        power += 1
    if not power:
        return f"{count} B"
    amount = count / (1 << 10 * power)
    return f"{amount:.0f} {_UNITS[power - 1]}" if amount >= 1000 else f"{amount:.3g} {_UNITS[power - 1]}"


def number(count: int | str | None) -> str:
    """A count, in groups of three digits."""
    return "—" if count is None or count == "" else f"{int(count):,}"


def counted(count: int, what: str) -> str:
    """A count with its noun."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def crumbs(key: str) -> list[tuple[str, str]]:
    """The folders in which a key is, from the top: name and prefix."""
    parts = key.split("/")[:-1]
    return [(part, "/".join(parts[: at + 1]) + "/") for at, part in enumerate(parts)]


def when(moment: str | float | dt.datetime | None) -> Markup:
    """A time as UTC, beside which the page shows that of the viewer's zone. ISO 8601, HTTP date or seconds since 1970."""
    listed = _LISTED.fullmatch(moment) if isinstance(moment, str) else None
    if listed is not None:
        day, time = listed.groups()
    else:
        found = _moment(moment)
        if found is None:
            return Markup("—")
        day, time = found.strftime("%Y-%m-%d %H:%M:%S").split()
    return Markup(f'<time datetime="{day}T{time}Z">{day} {time} UTC</time>')  # noqa: S704 - digits alone


def _moment(moment: str | float | dt.datetime | None) -> dt.datetime | None:
    if moment is None or moment == "":
        return None
    if isinstance(moment, (int, float)):
        return dt.datetime.fromtimestamp(moment, dt.UTC)
    if isinstance(moment, str):
        if moment[:1].isalpha():
            moment = dt.datetime.strptime(moment, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=dt.UTC)
        else:
            moment = dt.datetime.fromisoformat(moment)
    return moment.astimezone(dt.UTC)
