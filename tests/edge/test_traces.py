"""Traces of a live server, sent to a receiver of OTLP in this process."""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.serving import SECRET_KEY, Running, serving
from tests.fixtures.waiting import wait_until

import orcas.tracing
from orcas.errors import ConfigurationError
from orcas.tracing import STAGES, Traces

CHILDREN = list(STAGES)


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps the spans that it is sent, or answers with an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/traces"

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.status == 200:
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.server.resources.append(
                    {entry.key: entry.value.string_value for entry in part.resource.attributes}
                )
                for scope in part.scope_spans:
                    self.server.spans.extend(scope.spans)
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def traced(directory: Path, url: str, ratio: str, **settings: str) -> Iterator[Running]:
    more = {"ORCAS_TRACES_ENDPOINT": url, "ORCAS_TRACES_RATIO": ratio} | settings
    with serving(directory, level="info", form="json", **more) as server:
        yield server


def asked(client: Any, operation: str, header: str, **parameters: Any) -> Any:
    """An operation with a `traceparent` header."""

    def add(request: Any, **_: Any) -> None:
        request.headers.add_header("traceparent", header)

    client.meta.events.register(f"before-sign.s3.{operation}", add)
    method = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation)[1:]
    try:
        return getattr(client, method)(**parameters)
    finally:
        client.meta.events.unregister(f"before-sign.s3.{operation}", add)


def attributes(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in span.attributes:
        kind = entry.value.WhichOneof("value")
        found[entry.key] = getattr(entry.value, kind)
    return found


def counted(server: Running) -> dict[str, float]:
    from tests.edge.test_metrics import get

    families = text_string_to_metric_families(get(server.url, accept="text/plain")[2])
    return {
        sample.labels["result"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "orcas_trace_spans_total"
    }


def test_a_traced_request_is_a_child_of_its_caller_and_has_a_span_for_each_stage(
    tmp_path: Path, receiver: Receiver
) -> None:
    log = tmp_path / "access.log"
    with traced(tmp_path, receiver.url, "0", ORCAS_ACCESS_LOG=str(log), ORCAS_SLOW_REQUEST_MS="1") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
        began = time.time_ns()
        header = f"00-{trace_id}-{caller}-01"
        asked(s3, "PutObject", header, Bucket="bucket", Key="k", Body=bytes(20 << 20))
        with pytest.raises(s3.exceptions.NoSuchKey):
            asked(s3, "GetObject", header, Bucket="bucket", Key="missing")
        asked(s3, "HeadBucket", f"00-{secrets.token_hex(16)}-{caller}-00", Bucket="bucket")
        assert wait_until(lambda: len(receiver.spans) >= 10)
        ended = time.time_ns()
        assert wait_until(lambda: counted(server)["sent"] == 10)
        assert server.stop() == 0
    assert len(receiver.spans) == 10
    [put], [get] = receiver.named("PutObject"), receiver.named("GetObject")
    for span in (put, get):
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace_id, caller)
        assert span.kind == Span.SPAN_KIND_SERVER
        stages = [child for child in receiver.spans if child.parent_span_id == span.span_id]
        assert [child.name for child in stages] == CHILDREN
        at = span.start_time_unix_nano
        for child in stages:
            assert child.trace_id == span.trace_id
            assert at <= child.start_time_unix_nano + 1000
            at = child.end_time_unix_nano
        # Rounded to nanoseconds.
        assert at <= span.end_time_unix_nano + 1000
    assert began <= put.start_time_unix_nano < put.end_time_unix_nano <= ended
    stages = {child.name: child for child in receiver.spans if child.parent_span_id == put.span_id}
    assert stages["receive"].end_time_unix_nano > stages["receive"].start_time_unix_nano
    said = attributes(put)
    assert (said["aws.s3.bucket"], said["aws.s3.key"], said["http.response.status_code"]) == ("bucket", "k", 200)
    assert (attributes(get)["error.type"], get.status.code) == ("NoSuchKey", Status.STATUS_CODE_UNSET)
    assert receiver.resources[0]["service.name"] == "orcas"
    assert SECRET_KEY not in str(receiver.spans)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("trace_id") for line in lines if line["operation"] in {"PutObject", "GetObject"}] == [trace_id] * 2
    assert all("trace_id" not in line for line in lines if line["operation"] in {"CreateBucket", "HeadBucket"})
    slow = [line for line in server.lines() if line["message"] == "Slow request" and line["operation"] == "PutObject"]
    assert slow[0]["trace_id"] == trace_id
    assert slow[0]["authenticate_sec"] > 0


def test_a_share_of_the_other_requests_is_traced_and_refused_ones_never(tmp_path: Path, receiver: Receiver) -> None:
    with traced(tmp_path, receiver.url, "1") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        header = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        stranger = server.client(aws_secret_access_key="another")
        with pytest.raises(stranger.exceptions.ClientError):
            asked(stranger, "HeadBucket", header, Bucket="bucket")
        s3.head_bucket(Bucket="bucket")
        # What was not sent yet is sent at the end.
        assert server.stop() == 0
    roots = [span for span in receiver.spans if not span.parent_span_id]
    assert sorted(span.name for span in roots) == ["CreateBucket", "HeadBucket"]
    assert len({span.trace_id for span in roots}) == 2


def test_a_receiver_that_fails_costs_spans_and_one_line(tmp_path: Path, receiver: Receiver) -> None:
    # Not one of the statuses after which the exporter tries again.
    receiver.status = 400
    with traced(tmp_path, receiver.url, "1") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        assert wait_until(lambda: counted(server)["dropped"] == 5)
        s3.head_bucket(Bucket="bucket")
        assert wait_until(lambda: counted(server)["dropped"] == 10)
        receiver.status = 200
        s3.head_bucket(Bucket="bucket")
        assert wait_until(lambda: counted(server) == {"sent": 5, "dropped": 10})
        assert server.stop() == 0
        said = [line["message"] for line in server.lines() if "races " in line["message"]]
    assert [line.split(",")[0] for line in said] == [
        f"Traces cannot be sent to {receiver.url}",
        "Traces are sent again",
    ]
    assert not [line for line in server.lines() if line["logger"].startswith("opentelemetry")]


def test_a_receiver_that_is_not_there_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    with traced(tmp_path, "http://127.0.0.1:9/v1/traces", "1") as server:
        server.client().create_bucket(Bucket="bucket")
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 15


def test_what_finds_no_room_is_counted(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orcas.tracing, "_QUEUE_MAX", 3)
    monkeypatch.setattr(Traces, "_run", lambda _: None)
    traces = Traces(receiver.url)
    for _ in range(5):
        traces.add(STAGES_OF_A_REQUEST, {})
    assert traces.counts() == (0, 2 * 5)


STAGES_OF_A_REQUEST: Any = dict.fromkeys(["total", *STAGES], 0.1) | {
    "status": 200, "code": None, "slow": False,
    "trace": {"trace_id": "1" * 32, "span_id": "1" * 16, "parent_id": None},
}  # fmt: skip


def test_spans_that_cannot_be_made_cost_those_alone(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "orcas")
    traces = Traces(receiver.url)
    wrong = STAGES_OF_A_REQUEST | {"trace": {"trace_id": "no number", "span_id": "1" * 16, "parent_id": None}}
    for stages in (wrong, wrong, STAGES_OF_A_REQUEST):
        traces.add(stages, {})
    traces.close()
    assert traces.counts() == (5, 10)
    assert len(receiver.spans) == 5
    assert [line.getMessage() for line in caplog.records] == ["Spans of a request cannot be made"]


def test_what_others_log_with_opentelemetry_stays_theirs(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.status = 400
    theirs = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    before = [list(theirs.filters), list(theirs.handlers), list(logging.getLogger("opentelemetry").handlers)]
    traces = Traces(receiver.url)
    theirs.error("Of somebody else")
    traces.add(STAGES_OF_A_REQUEST, {})
    traces.close()
    said = [line.getMessage() for line in caplog.records if line.name.startswith("opentelemetry")]
    assert said == ["Of somebody else"]
    assert before == [list(theirs.filters), list(theirs.handlers), list(logging.getLogger("opentelemetry").handlers)]
    assert [line for line in caplog.messages if "Traces cannot be sent" in line and "400" in line]


def test_without_the_packages_it_says_what_to_install(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'orcas-s3\[otel\]'"):
        Traces(receiver.url)
