"""orcas top on a live server, and how it reads two pages of metrics."""

from __future__ import annotations

import contextlib
import http.server
import io
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target
from tests.fixtures.waiting import wait_until
from tests.tools.conftest import BUCKET

from orcas.cli.server.top import _view
from orcas.errors import UnavailableError
from orcas.settings.config import child_environment
from orcas.telemetry.activity import document as document_of
from orcas.telemetry.samples import Between, Page
from orcas.tools.samples import read_page
from orcas.tools.session import HttpTransport

Serve = Callable[..., AbstractContextManager[Target]]
TOKEN = "a-token-of-operators"


def page(text: str, moment: float) -> Page:
    return Page.parsed(text, moment)


def test_samples_are_read_by_name_and_labels() -> None:
    read = page('# HELP a_total A.\na_total{x="1",y="q\\"\\\\\\n"} 3\na_total{x="2",y="z"} 4\nb 0.5\n', 0)
    assert (read.value("a_total"), read.value("a_total", x="1"), read.value("a_total", y='q"\\\n')) == (7, 3, 3)
    assert (read.value("b"), read.value("absent"), read.labels("a_total", "x")) == (0.5, 0, ["1", "2"])


def test_rates_are_between_two_pages_and_survive_a_restart() -> None:
    between = Between(page("a_total 10\nb_total 50\n", 100), page("a_total 30\nb_total 8\n", 104))
    assert (between.seconds, between.rate("a_total"), between.rate("b_total")) == (4, 5, 2)


def test_quantiles_are_estimated_as_prometheus_does() -> None:
    def buckets(*counts: int) -> str:
        bounds = ("0.1", "0.2", "0.4", "+Inf")
        lines = [f'h_bucket{{of="x",le="{bound}"}} {count}' for bound, count in zip(bounds, counts, strict=True)]
        return "\n".join([*lines, f'h_sum{{of="x"}} {counts[-1] * 2}', f'h_count{{of="x"}} {counts[-1]}', ""])

    between = Between(page(buckets(5, 5, 5, 5), 0), page(buckets(5, 15, 25, 25), 1))
    assert between.quantile(0.5, "h", of="x") == pytest.approx(0.2)
    assert between.quantile(0.75, "h") == pytest.approx(0.3)
    assert between.mean("h") == 2
    assert between.quantile(0.5, "h", of="y") is None
    beyond = Between(page(buckets(0, 0, 0, 0), 0), page(buckets(0, 0, 0, 9), 1))
    assert beyond.quantile(0.5, "h") == pytest.approx(0.4)


def test_a_quantile_looks_at_each_sample_once() -> None:
    class Counted(Page):
        looks = 0

        def matching(self, name: str, wanted: dict[str, str]) -> list[tuple[dict[str, str], float]]:
            Counted.looks += len(self.samples[name])
            return super().matching(name, wanted)

    lines = [
        f'h_bucket{{of="{of}",result="{result}",le="{bound}"}} 7'
        for of in range(70) for result in range(5) for bound in (*range(1, 20), "+Inf")
    ]  # fmt: skip
    before, now = (Counted.parsed("\n".join([*lines, ""]).replace("} ", f"}} {sign}"), 0) for sign in ("", "1"))
    assert Between(before, now).quantile(0.5, "h") is not None
    assert Counted.looks == 2 * len(lines)


@pytest.mark.parametrize("status", [502, 503])
def test_a_server_that_is_not_ready_is_unavailable(status: int) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        with (
            contextlib.closing(HttpTransport(url)) as transport,
            pytest.raises(UnavailableError, match=str(status)),
        ):
            read_page(transport, None)
        thread.join()


@contextlib.contextmanager
def load(target: Target) -> Iterator[None]:
    """Writes and failing reads until the block ends."""
    client, done = target.client(), threading.Event()

    def work() -> None:
        number = 0
        while not done.wait(0.01):
            number += 1
            client.put_object(Bucket=BUCKET, Key=str(number % 10), Body=bytes(1000))
            with contextlib.suppress(client.exceptions.NoSuchKey):
                client.get_object(Bucket=BUCKET, Key="absent")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_one_look_says_what_the_server_does(serve: Serve, data: Path) -> None:
    with serve() as target, load(target):
        seen: dict[str, Any] = document("top", "--data", data, "--interval", "1")
        assert (seen["state"], seen["writable"]) == ("ok", True)
        assert 1 <= seen["seconds"] < 30
        rows = {row["operation"]: row for row in seen["operations"]}
        put, get = rows["PutObject"], rows["GetObject"]
        assert put["per_sec"] > 0
        assert put["failed_per_sec"] == 0
        # Two quotients are compared, so the last bit may differ.
        assert put["received_bytes_per_sec"] / put["per_sec"] > 999
        assert 0 < put["p50_sec"] <= put["p99_sec"]
        assert get["failed_per_sec"] == get["per_sec"] == seen["errors"]["NoSuchKey"]
        assert seen["commits"]["per_sec"] > 0
        assert seen["commits"]["sync_p99_sec"] > 0
        assert seen["disk_free_bytes"] > 0
        shown = command("top", "--endpoint", target.server.endpoint, "--once", "--interval", "0.5")
        assert "PutObject" in shown
        assert "errors: NoSuchKey" in shown
        assert "\x1b" not in shown


def test_a_token_is_sent(serve: Serve, data: Path) -> None:
    with serve(metrics_token=TOKEN):
        sentence = command("top", "--data", data, "--once", "--interval", "0.1", code=1)
        assert "ORCAS_METRICS_TOKEN" in sentence
        assert document("top", "--data", data, "--interval", "0.1", ORCAS_METRICS_TOKEN=TOKEN)["state"] == "ok"


def test_without_a_server_it_says_so(data: Path) -> None:
    assert "No server has the store" in command("top", "--data", data, "--once", code=69)
    assert "cannot be reached" in command("top", "--endpoint", "http://127.0.0.1:9", "--once", code=69)


def test_a_terminal_is_renewed_until_ctrl_c_and_survives_a_restart(serve: Serve, data: Path) -> None:
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                shown.extend(piece)

    with serve() as target:
        variables = {"TERM": "xterm", "XDG_CONFIG_HOME": "/nonexistent", "COLUMNS": "120", "LINES": "20"}
        process = subprocess.Popen(
            [sys.executable, "-m", "orcas", "top", "--data", str(data), "--interval", "0.1"],
            env=child_environment() | variables, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        # Each view begins anew at the top of the alternate screen, and its summary fits into 20 lines.
        assert wait_until(lambda: shown.count(b"Orcas ") >= 3)
        assert b"\x1b[?1049h" in shown
        with load(target):
            assert wait_until(lambda: b"disk free" in shown and b"PutObject" in shown)
    assert wait_until(lambda: b"cannot be reached" in shown or b"No server has the store" in shown)
    assert process.poll() is None
    # The next one listens elsewhere, and its counters are not compared with those of the first.
    with serve() as another:
        assert another.server.endpoint != target.server.endpoint
        assert wait_until(lambda: b"The server was started anew" in shown)
        assert wait_until(lambda: another.server.endpoint.encode() in shown)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, b"")
    reader.join()
    os.close(ours)
    # The screen of before is back, with its cursor.
    assert shown.rstrip().endswith((b"\x1b[?1049l", b"\x1b[?25h"))


def test_the_operations_that_do_not_fit_are_counted() -> None:
    rows = [
        {
            "operation": f"Operation{number}", "per_sec": 1.0, "failed_per_sec": 0.0, "p50_sec": 0.1, "p99_sec": 0.1,
            "received_bytes_per_sec": 0.0, "sent_bytes_per_sec": 0.0,
        }
        for number in range(20)
    ]  # fmt: skip
    now = page('orcas_store_writable 1\norcas_build_info{version="1"} 1\norcas_store_state{state="ok"} 1\n', 1)
    seen = document_of(Between(now, now)) | {"operations": rows, "errors": {"NoSuchKey": 2.0}}

    def lines(height: int, *, terminal: bool = True) -> list[str]:
        console = Console(file=io.StringIO(), width=120, height=height, force_terminal=terminal, color_system=None)
        return [
            "".join(segment.text for segment in line).rstrip()
            for line in console.render_lines(_view(console, "http://x", seen))
        ]

    for height in (18, 24, 30):
        shown = lines(height)
        assert len(shown) == height
        assert any(line.startswith("disk free") for line in shown)
        count = sum(line.startswith("Operation") for line in shown) - 1
        assert shown[-1] == f"and {20 - count} operations more"
    whole = lines(60)
    assert sum(line.startswith("Operation") for line in whole) == 21
    assert not whole[-1].startswith("and")
    assert lines(24, terminal=False)[-1] == "and 5 operations more"
