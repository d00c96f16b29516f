"""The page of metrics of a live server, as the official parser reads it."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_families
from tests.fixtures.serving import Running, serving
from tests.fixtures.signing import UNSIGNED, signed_headers
from tests.fixtures.wire import request_head

from orcas.engine import METRICS

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TOKEN = "a-token-of-operators"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def get(server: Running, **headers: str) -> tuple[int, str, str]:
    """Status, content type and body of the page."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    wire = server.wire
    answer = wire.send("GET", "/_orcas/metrics", {"host": wire.netloc, "accept": OPENMETRICS} | named)
    return answer.status, answer.headers["content-type"], answer.body.decode()


def parsed(text: str) -> Samples:
    """Every sample, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def read(server: Running) -> Samples:
    status, kind, text = get(server)
    assert (status, kind) == (200, OPENMETRICS)
    return parsed(text)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("metrics")
    with serving(directory, level="info", form="json", ORCAS_METRICS_BUCKETS="2") as running:
        yield running


def test_a_page_has_every_metric_of_the_table_in_both_formats(server: Running) -> None:
    _, _, text = get(server)
    families = list(text_string_to_metric_families(text))
    shown = [(family.name, family.type, family.unit, family.documentation) for family in families]
    # Standbys and nodes have more: tests/tools/test_standby.py and tests/cluster/test_nodes.py read their pages.
    of_all = [row for row in METRICS if not row[0].startswith(("orcas_standby_", "orcas_cluster_"))]
    assert len(shown) == len(of_all)
    assert set(shown) == {(name, kind, unit, meaning) for name, kind, unit, _, meaning in of_all}
    assert text.endswith("# EOF\n")
    labels = {name: set(labels) for name, _, _, labels, _ in METRICS}
    for family in families:
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels[family.name]
    status, kind, older = get(server, accept="text/plain")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "# EOF" not in older
    assert {family.name.removesuffix("_info") for family in older_families(older)} == {name for name, *_ in of_all}


def test_requests_are_counted_by_what_they_asked_for_and_how_they_ended(server: Running) -> None:
    s3 = server.client()
    bucket = f"b-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    before = read(server)
    body = bytes(1000)
    s3.put_object(Bucket=bucket, Key="small", Body=body)
    s3.put_object(Bucket=bucket, Key="large", Body=bytes(300_000))
    for key in ("small", "large"):
        s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    with pytest.raises(botocore.exceptions.ClientError):
        s3.get_object(Bucket=bucket, Key="missing")
    with pytest.raises(botocore.exceptions.ClientError):
        server.client(aws_secret_access_key="another").get_object(Bucket=bucket, Key="small")
    after = read(server)

    def rise(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert rise("orcas_requests_total", operation="PutObject", result="2xx") == 2
    assert rise("orcas_requests_total", operation="GetObject", result="2xx") == 2
    assert rise("orcas_requests_total", operation="GetObject", result="4xx") == 1
    assert rise("orcas_requests_total", operation="none", result="4xx") == 1
    assert rise("orcas_errors_total", code="NoSuchKey") == 1
    assert rise("orcas_errors_total", code="SignatureDoesNotMatch") == 1
    assert rise("orcas_request_duration_seconds_count", operation="GetObject") == 3
    assert rise("orcas_request_first_byte_seconds_count", operation="GetObject") == 3
    assert rise("orcas_request_duration_seconds_sum", operation="PutObject") > 0
    # Bodies of boto3 may be framed in chunks.
    assert 301_000 <= rise("orcas_request_body_bytes_total", operation="PutObject") < 303_000
    assert rise("orcas_response_body_bytes_total", operation="GetObject") >= 301_000
    assert rise("http_requests_total", status="200") == 4
    assert rise("http_requests_total", status="404") == 1
    assert rise("http_request_duration_seconds_count") == 6
    assert rise("orcas_commit_round_seconds_count") >= 2
    assert rise("orcas_log_sync_seconds_count") >= 2
    assert rise("orcas_commit_batch_records_sum") >= 2
    assert value(after, "orcas_requests_in_flight") == 0
    assert value(after, "orcas_store_state", state="ok") == 1
    assert value(after, "orcas_store_writable") == 1
    assert value(after, "orcas_disk_free_bytes") > 0
    assert value(after, "orcas_connections") >= 1


def test_a_response_that_is_not_taken_to_its_end_is_incomplete(server: Running) -> None:
    s3 = server.client()
    bucket = f"b-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(40 << 20))
    before = read(server)
    body = s3.get_object(Bucket=bucket, Key="k")["Body"]
    body.read(1)
    s3.close()
    body.close()

    def incomplete(samples: Samples) -> float:
        return value(samples, "orcas_requests_total", operation="GetObject", result="incomplete")

    for _ in range(200):
        after = read(server)
        if incomplete(after) > incomplete(before):
            break
    assert incomplete(after) == incomplete(before) + 1
    assert value(after, "orcas_requests_in_flight") == 0


def test_buckets_beyond_the_limit_are_summed(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_METRICS_BUCKETS="1") as server:
        s3 = server.client()
        for number in range(4):
            s3.create_bucket(Bucket=f"bucket-{number}")
            s3.put_object(Bucket=f"bucket-{number}", Key="k", Body=bytes(1000 + (number == 2)))
        wanted = {
            ("orcas_bucket_bytes", (("bucket", "bucket-2"),)): 1001,
            ("orcas_bucket_bytes", (("bucket", "_other"),)): 3000,
            ("orcas_bucket_objects", (("bucket", "_other"),)): 3,
            ("orcas_buckets", ()): 4,
        }
        for _ in range(100):
            samples = read(server)
            # The index follows within a quarter of a second, and is read once a second.
            if wanted.items() <= samples.items():
                break
            time.sleep(0.1)
        assert wanted.items() <= samples.items()
        assert sum(name == "orcas_bucket_bytes" for name, _ in samples) == 2


def test_whatever_clients_send_there_are_no_more_samples(server: Running) -> None:
    wire = server.wire
    sizes: list[int] = []
    # The server adds samples when one of its tasks first runs, at any time; clients would add some in each round.
    while len(sizes) < 2 or sizes[-1] != sizes[-2]:
        number = len(sizes)
        assert number < 10, sizes
        for path in (f"/b{number}/k{number}", f"/b?{number}", "/%zz", f"/b-{number}?uploads&x", "/b/%E2%82%AC"):
            headers = {"host": wire.netloc, "x-amz-y": str(number), "user-agent": f"u{number}"}
            wire.send("GET", path, headers)
        for path in ("b", "/x y"):
            wire.send(f"M{number}", path, {"host": wire.netloc})
        samples = read(server)
        sizes.append(len(samples))
    assert value(samples, "orcas_connection_refusals_total", code="BadRequest") > 0


def test_a_token_is_needed_if_there_is_one(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_METRICS_TOKEN=TOKEN) as server:
        assert get(server)[0] == 401
        assert get(server, authorization=f"Bearer {TOKEN}x")[0] == 401
        assert get(server, authorization=f"Basic {TOKEN}")[0] == 401
        status, kind, text = get(server, authorization=f"Bearer {TOKEN}")
        assert (status, kind) == (200, OPENMETRICS)
        assert parsed(text)
        # As a proxy passes it on.
        assert get(server, authorization=f"Bearer {TOKEN}", x_forwarded_for="10.0.0.1")[0] == 200
        assert TOKEN not in server.text()


@pytest.mark.parametrize("header", ["forwarded", "via", "x_forwarded_for", "x_real_ip"])
def test_without_a_token_nobody_reads_them_through_a_proxy(server: Running, header: str) -> None:
    assert get(server, **{header: "10.0.0.1"})[0] == 403


def test_they_can_be_turned_off(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_METRICS="off") as server:
        assert get(server)[0] == 404
        server.client().create_bucket(Bucket="bucket")


def test_on_the_host_of_a_bucket_the_path_is_a_key(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_DOMAINS="s3.test") as server:
        status, kind, text = get(server, host="bucket.s3.test")
        assert (status, kind) == (403, "application/xml")
        assert "<Code>AccessDenied</Code>" in text


def test_without_a_token_only_the_name_of_this_machine_leads_to_them(server: Running) -> None:
    port = server.url.rpartition(":")[2]
    for host, status in (
        ("localhost", 200),
        (f"127.0.0.1:{port}", 200),
        ("[::1]:9000", 200),
        ("attacker.example", 403),
    ):
        assert get(server, host=host)[0] == status, host


def test_a_body_that_the_connection_refuses_is_an_error_of_its_request(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_BODY_TIMEOUT_SEC="1") as server:
        server.client().create_bucket(Bucket="bucket")
        wire = server.wire
        url = f"{server.url}/bucket/k"
        headers = signed_headers(wire.identity, "PUT", url, {"Host": wire.netloc}, b"", UNSIGNED)
        with wire.connect() as connection:
            connection.send(request_head("PUT", "/bucket/k", headers | {"Content-Length": "1000"}) + b"x")
            assert connection.response().status == 400
        samples = read(server)
        assert value(samples, "orcas_requests_total", operation="PutObject", result="4xx") == 1
        assert value(samples, "orcas_requests_total", operation="PutObject", result="incomplete") == 0
        assert value(samples, "orcas_connection_refusals_total", code="RequestTimeout") == 0
