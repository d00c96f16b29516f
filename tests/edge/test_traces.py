"""Traces of a live server, sent to a receiver of OTLP in this process."""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import queue
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
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from tests.fixtures.serving import SECRET_KEY, Running, serving
from tests.fixtures.waiting import wait_until

from orcas.errors import ConfigurationError
from orcas.telemetry.tracing import REFUSED_STAGES, STAGES, Traces

CHILDREN = list(STAGES)
# The steps of a write that is synced, and of a body that is read.
WRITE = ["prepare", "queue", "decide", "append", "sync", "publish"]
READ = ["read", "verify"]


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

    def below(self, parent: Span) -> list[Span]:
        return [span for span in self.spans if span.parent_span_id == parent.span_id]

    def steps(self, request: Span, stage: str) -> list[str]:
        [found] = [span for span in self.below(request) if span.name == stage]
        return [span.name for span in self.below(found)]


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
    with receiving() as server:
        yield server


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
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


def took(span: Span) -> int:
    return span.end_time_unix_nano - span.start_time_unix_nano


def sample(server: Running, name: str, label: str) -> dict[str, float]:
    """The values of a metric by one of its labels."""
    from tests.edge.test_metrics import get

    families = text_string_to_metric_families(get(server, accept="text/plain")[2])
    return {
        sample.labels[label]: sample.value for family in families for sample in family.samples if sample.name == name
    }


def counted(server: Running) -> dict[str, float]:
    return sample(server, "orcas_trace_spans_total", "result")


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
        # What was not sent yet is sent at the end.
        assert server.stop() == 0
        ended = time.time_ns()
    [put], [get] = receiver.named("PutObject"), receiver.named("GetObject")
    for span in (put, get):
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace_id, caller)
        assert span.kind == Span.SPAN_KIND_SERVER
        stages = receiver.below(span)
        assert [child.name for child in stages] == CHILDREN
        at = span.start_time_unix_nano
        for child in stages:
            assert child.trace_id == span.trace_id
            assert at <= child.start_time_unix_nano + 1000
            at = child.end_time_unix_nano
        # Rounded to nanoseconds.
        assert at <= span.end_time_unix_nano + 1000
    assert began <= put.start_time_unix_nano < put.end_time_unix_nano <= ended
    stages = {child.name: child for child in receiver.below(put)}
    assert [step.name for step in receiver.below(stages["execute"])] == WRITE
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
    assert all(slow[0][f"{step}_sec"] >= 0 for step in WRITE)
    assert slow[0]["execute_sec"] >= slow[0]["sync_sec"] > 0


def test_steps_lie_in_their_stages_and_one_after_another(tmp_path: Path, receiver: Receiver) -> None:
    with traced(tmp_path, receiver.url, "1", ORCAS_ACCESS_LOG=str(tmp_path / "log")) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        for key, size in (("small", 1024), ("large", 1 << 20)):
            s3.put_object(Bucket="bucket", Key=key, Body=bytes(size))
            assert len(s3.get_object(Bucket="bucket", Key=key)["Body"].read()) == size
        s3.list_objects_v2(Bucket="bucket")
        s3.delete_object(Bucket="bucket", Key="small")
        assert server.stop() == 0
    small, large = receiver.named("GetObject")
    [listing], [deletion] = receiver.named("ListObjectsV2"), receiver.named("DeleteObject")
    puts = receiver.named("PutObject")
    assert [receiver.steps(span, "execute") for span in (*puts, deletion)] == [WRITE] * 3
    assert receiver.steps(small, "execute") == ["lookup", *READ]
    assert receiver.steps(large, "execute") == ["lookup"]
    assert receiver.steps(large, "send") == READ
    assert receiver.steps(listing, "execute") == ["queue"]
    for span in (*puts, deletion, small):
        [execute] = [stage for stage in receiver.below(span) if stage.name == "execute"]
        at = execute.start_time_unix_nano
        for step in receiver.below(execute):
            # Times are rounded to nanoseconds, as the span of the request and the stage were.
            assert at <= step.start_time_unix_nano + 1000, step.name
            at = step.end_time_unix_nano
        assert at <= execute.end_time_unix_nano + 1000
    [lasted] = [took(step) for stage in receiver.below(large) for step in receiver.below(stage) if step.name == "read"]
    assert lasted > 0


def test_a_share_of_the_other_requests_is_traced_and_refused_ones_with_their_error(
    tmp_path: Path, receiver: Receiver
) -> None:
    log = tmp_path / "access.log"
    with traced(tmp_path, receiver.url, "1", ORCAS_ACCESS_LOG=str(log)) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        trace_id, caller = secrets.token_hex(16), secrets.token_hex(8)
        stranger = server.client(aws_secret_access_key="another")
        with pytest.raises(stranger.exceptions.ClientError):
            asked(stranger, "HeadBucket", f"00-{trace_id}-{caller}-01", Bucket="bucket")
        s3.head_bucket(Bucket="bucket")
        assert server.stop() == 0
        lines = server.lines()
    roots = [span for span in receiver.spans if not span.parent_span_id]
    assert sorted(span.name for span in roots) == ["CreateBucket", "HeadBucket"]
    assert len({span.trace_id for span in roots}) == 2
    [refused] = [span for span in receiver.named("HeadBucket") if span.parent_span_id.hex() == caller]
    said = attributes(refused)
    assert (refused.trace_id.hex(), said["http.response.status_code"]) == (trace_id, 403)
    assert (said["error.type"], said["aws.s3.bucket"]) == ("SignatureDoesNotMatch", "bucket")
    assert [stage.name for stage in receiver.below(refused)] == list(REFUSED_STAGES)
    assert [line["trace_id"] for line in lines if line["message"] == "Request refused"] == [trace_id]
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["trace_id"] for line in logged if line["status"] == 403] == [trace_id]


def test_what_clients_ask_for_is_bounded_and_counted(tmp_path: Path, receiver: Receiver) -> None:
    with traced(tmp_path, receiver.url, "0", ORCAS_TRACES_ASKED_PER_SEC="2") as server:
        s3, stranger = server.client(), server.client(aws_secret_access_key="another")
        s3.create_bucket(Bucket="bucket")

        def ask(client: Any) -> None:
            header = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
            with contextlib.suppress(stranger.exceptions.ClientError):
                asked(client, "HeadBucket", header, Bucket="bucket")

        began = time.monotonic()
        for client in [stranger] * 20 + [s3] * 10:
            ask(client)
        # Seconds that begin in between, the one at the start, and one that ends in between.
        seconds = int(time.monotonic() - began) + 2
        declined = sample(server, "orcas_traces_declined_total", "sender")
        assert server.stop() == 0
    roots = receiver.named("HeadBucket")
    refused = [span for span in roots if "error.type" in attributes(span)]
    taken = len(roots) - len(refused)
    assert declined == {"other": 20 - len(refused), "verified": 10 - taken}
    assert 2 <= len(refused) <= 2 * seconds
    assert 2 <= taken <= 2 * seconds, "those of strangers took none of their places"


def test_durations_show_the_trace_of_a_recent_request_where_the_format_can(tmp_path: Path, receiver: Receiver) -> None:
    from tests.edge.test_metrics import get

    with traced(tmp_path, receiver.url, "0") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        traces = [secrets.token_hex(16) for _ in range(3)]
        began = time.time()
        for trace_id in traces:
            asked(s3, "HeadBucket", f"00-{trace_id}-{secrets.token_hex(8)}-01", Bucket="bucket")
        s3.head_bucket(Bucket="bucket")
        page = get(server, accept="application/openmetrics-text;version=1.0.0")[2]
        plain = get(server, accept="text/plain")[2]
        assert server.stop() == 0
    assert "trace_id" not in plain
    found: dict[str, set[str]] = {}
    for family in openmetrics_families(page):
        bounds: dict[tuple[str, ...], float] = {}
        for sample in family.samples:
            labels = tuple(value for name, value in sorted(sample.labels.items()) if name != "le")
            if sample.exemplar is not None:
                assert bounds.get(labels, 0) <= sample.exemplar.value <= float(sample.labels["le"])
                assert began - 1 <= float(sample.exemplar.timestamp) <= time.time() + 1
                assert sample.value > 0
                found.setdefault(f"{family.name} {sample.labels.get('operation', '')}", set()).add(
                    sample.exemplar.labels["trace_id"]
                )
            if "le" in sample.labels:
                bounds[labels] = float(sample.labels["le"])
    assert set(found) == {
        "orcas_request_duration_seconds HeadBucket",
        "orcas_request_first_byte_seconds HeadBucket",
        "http_request_duration_seconds ",
    }
    assert all(traces[-1] in shown <= set(traces) for shown in found.values())


def test_a_receiver_that_fails_costs_spans_and_one_line(tmp_path: Path, receiver: Receiver) -> None:
    # Not one of the statuses after which the exporter tries again.
    receiver.status = 400
    with traced(tmp_path, receiver.url, "1") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        assert wait_until(lambda: counted(server)["dropped"] > 0)
        first = counted(server)["dropped"]
        assert first > 1 + len(STAGES)
        s3.head_bucket(Bucket="bucket")
        assert wait_until(lambda: counted(server)["dropped"] == first + 5)
        receiver.status = 200
        s3.head_bucket(Bucket="bucket")
        assert wait_until(lambda: counted(server) == {"sent": 5, "dropped": first + 5})
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


STAGES_OF_A_REQUEST: Any = dict.fromkeys(["total", *STAGES], 0.1) | {
    "steps": [], "refused": False, "verified": True, "status": 200, "code": None, "slow": False,
    "trace": {"trace_id": "1" * 32, "span_id": "1" * 16, "parent_id": None},
}  # fmt: skip


def done(**stages: Any) -> Any:
    """A traced request with other stages than `STAGES_OF_A_REQUEST`."""
    known = {"ended_ns": time.time_ns(), "spans": 5, "method": "GET", "stages": STAGES_OF_A_REQUEST | stages}
    return dict.fromkeys(["operation", "bucket", "key", "client"]) | known


class Given:
    """A source of requests of the test's own."""

    def __init__(self, *requests: Any) -> None:
        self._batches: queue.Queue[list[Any]] = queue.Queue()
        if requests:
            self._batches.put(list(requests))

    def take_traced(self, gather: float, /) -> list[Any]:
        return self._batches.get()

    def end_traced(self) -> None:
        self._batches.put([])

    def dropped_spans(self) -> int:
        return 7


def test_spans_that_cannot_be_made_cost_those_alone(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "orcas")
    wrong = done(trace={"trace_id": "no number", "span_id": "1" * 16, "parent_id": None})
    traces = Traces(receiver.url, Given(wrong, wrong, done()))
    traces.close()
    assert traces.counts() == (5, 7 + 10)
    assert len(receiver.spans) == 5
    assert [line.getMessage() for line in caplog.records] == ["Spans of a request cannot be made"]


def test_what_others_log_with_opentelemetry_stays_theirs(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.status = 400
    theirs = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    before = [list(theirs.filters), list(theirs.handlers), list(logging.getLogger("opentelemetry").handlers)]
    traces = Traces(receiver.url, Given(done()))
    theirs.error("Of somebody else")
    traces.close()
    said = [line.getMessage() for line in caplog.records if line.name.startswith("opentelemetry")]
    assert said == ["Of somebody else"]
    assert before == [list(theirs.filters), list(theirs.handlers), list(logging.getLogger("opentelemetry").handlers)]
    assert [line for line in caplog.messages if "Traces cannot be sent" in line and "400" in line]


def test_without_the_packages_it_says_what_to_install(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'orcas-s3\[otel\]'"):
        Traces(receiver.url, Given())
