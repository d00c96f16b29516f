"""How texts of strangers, sizes and times are shown."""

from __future__ import annotations

import datetime as dt

import pytest

from orcas.console import shown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a<b>&\"'", "a&lt;b&gt;&amp;&#34;&#39;"),
        ("日本語 🐋", "日本語 🐋"),
        ("a\nb", 'a<span class="mark" title="control character">U+000A</span>b'),
        ("\u202e", '<span class="mark" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>'),
        ("\u00a0", '<span class="mark" title="NO-BREAK SPACE">U+00A0</span>'),
        ("\ud800", '<span class="mark" title="control character">U+D800</span>'),
        ("\x1b[2J", '<span class="mark" title="control character">U+001B</span>[2J'),
        (None, ""),
    ],
)
def test_a_key_is_shown_as_it_is(text: str | None, html: str) -> None:
    assert shown.key(text) == f'<bdi class="key">{html}</bdi>'


def test_a_text_keeps_its_lines_and_tabs() -> None:
    assert shown.text("a\tb\r\n<c>\n\x07") == (
        '<bdi class="key">a\tb\n&lt;c&gt;\n<span class="mark" title="control character">U+0007</span></bdi>'
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), ((1 << 20) - 1, "1024 KiB"),
     (1 << 60, "1024 PiB"), ("", "—"), (None, "—")],
)  # fmt: skip
def test_sizes(count: int | str | None, text: str) -> None:
    assert shown.size(count) == text


@pytest.mark.parametrize(
    "moment",
    ["2026-11-28T05:44:39.000Z", "Sat, 28 Nov 2026 05:44:39 GMT", 1795844679, "2026-11-28T06:44:39+01:00",
     dt.datetime(2026, 11, 28, 5, 44, 39, tzinfo=dt.UTC)],
)  # fmt: skip
def test_times(moment: str | float | dt.datetime) -> None:
    assert shown.when(moment) == '<time datetime="2026-11-28T05:44:39Z">2026-11-28 05:44:39 UTC</time>'
