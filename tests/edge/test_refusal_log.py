"""What the log of a live server says about refused requests, and about its start and end."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.serving import ACCESS_KEY, SECRET_KEY, Running, serving
from tests.fixtures.signing import presigned_url, signed_headers
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Answer, request_head


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that logs everything as JSON, with a bucket that holds `k`."""
    with serving(tmp_path_factory.mktemp("logged"), level="debug", form="json") as running:
        assert running.wire("PUT", "/bucket").status == 200
        assert running.wire("PUT", "/bucket/k", body=b"content").status == 200
        yield running
        # No test of this module may have revealed a secret.
        assert SECRET_KEY not in running.text()


def about(running: Running, answer: Answer, *, debug: bool) -> dict[str, Any]:
    """The one line about a request at this level, which the listener may write after the answer."""

    def found() -> list[dict[str, Any]]:
        lines = running.about(answer.headers["x-amz-request-id"])
        return [line for line in lines if (line["level"] == "debug") == debug]

    assert wait_until(lambda: bool(found()))
    assert len(found()) == 1, found()
    return found()[0]


def line_of(running: Running, answer: Answer) -> dict[str, Any]:
    """The one line that says that a request was refused."""
    return about(running, answer, debug=False)


def cause_of(running: Running, answer: Answer) -> str:
    """The likely cause of a refused signature, as the log has it at debug."""
    found = about(running, answer, debug=True)
    assert found["canonical_request"].startswith(("GET\n", "HEAD\n"))
    assert found["string_to_sign"].startswith("AWS4-HMAC-SHA256\n")
    cause: str = found["likely_cause"]
    return cause


def signed_as(running: Running, target: str, sent: str, host: str | None = None, **extra: str) -> Answer:
    """A GET signed for `target` at `host`, but sent for `sent` to the server's own name."""
    wire = running.wire
    host = host or wire.netloc
    headers = signed_headers(wire.identity, "GET", f"http://{host}{target}", {"Host": host})
    return wire.send("GET", sent, headers | {"Host": wire.netloc} | {k.replace("_", "-"): v for k, v in extra.items()})


def test_one_line_says_who_was_refused_what_and_why(logged: Running) -> None:
    answer = logged.wire("GET", "/bucket/some%20key", headers={"Range": "bytes=5-2"}, query="partNumber=x")
    line = line_of(logged, answer)
    assert (line["level"], line["message"], line["status"], line["code"]) == (
        "info", "Request refused", answer.status, answer.code,
    )  # fmt: skip
    assert (line["operation"], line["bucket"], line["key"]) == ("GetObject", "bucket", "some key")
    assert line["access_key"] == ACCESS_KEY
    assert line["client"].startswith("127.0.0.1:")
    assert line["cause"].startswith(answer.error["Message"])


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/bucket/absent", {}, 404),
        ("HEAD", "/bucket/absent", {}, 404),
        ("GET", "/bucket/k", {"If-Match": '"0"'}, 412),
        ("GET", "/bucket/k?annotation&annotationName=a", {}, 404),
        ("PUT", "/bucket/k", {"If-None-Match": "*"}, 412),
        ("GET", "/bucket/k", {}, 200),
    ],
)
def test_what_clients_ask_as_a_matter_of_course_has_no_line(
    logged: Running, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = logged.wire(method, path, headers=headers)
    assert answer.status == status
    assert logged.about(answer.headers["x-amz-request-id"]) == []


@pytest.mark.parametrize("query", ["cors", "policy", "tagging", "website", "object-lock", "analytics&id=x"])
def test_a_configuration_that_was_never_written_has_no_line(logged: Running, query: str) -> None:
    answer = logged.wire("GET", "/bucket", query)
    assert answer.status == 404
    assert logged.about(answer.headers["x-amz-request-id"]) == []


def test_every_part_of_the_server_reports_its_refusals(logged: Running) -> None:
    wire = logged.wire
    assert line_of(logged, wire("GET", "/no-such-bucket/k"))["code"] == "NoSuchBucket"
    assert line_of(logged, wire("HEAD", "/no-such-bucket"))["operation"] == "HeadBucket"
    assert line_of(logged, wire("PUT", "/bucket", "cors"))["operation"] == "PutBucketCors"
    upside_down = line_of(logged, wire("GET", "/Not+A+Bucket/k"))
    assert (upside_down["code"], upside_down["path"]) == ("InvalidBucketName", "/Not+A+Bucket/k")
    admin = line_of(logged, wire.using(secret_key="wrong")("GET", "/_orcas/admin/stats"))
    assert (admin["status"], admin["code"], admin["path"]) == (403, "SignatureDoesNotMatch", "/_orcas/admin/stats")
    assert line_of(logged, wire("GET", "/_orcas/admin/jobs/none"))["code"] == "NoSuchJob"
    assert line_of(logged, wire("GET", "/_orcas/none", sign=False))["status"] == 404
    nameless = wire.send("GET", "/", {})
    line = line_of(logged, nameless)
    assert (line["status"], line["logger"] in {"orcas.http", "orcas.front"}) == (400, True)
    assert line["client"].startswith("127.0.0.1:")


def test_the_cause_of_a_wrong_signature_is_found(logged: Running) -> None:
    wire = logged.wire
    with pytest.raises(ClientError) as refused:
        logged.client(aws_secret_access_key="wrong").get_object(Bucket="bucket", Key="k")
    metadata = refused.value.response["ResponseMetadata"]
    answer = Answer(403, metadata["HTTPHeaders"], b"")
    assert line_of(logged, answer)["code"] == "SignatureDoesNotMatch"
    assert cause_of(logged, answer).startswith("most likely the secret key")

    late = wire.using(clock_offset=dt.timedelta(hours=-1))("GET", "/bucket/k")
    assert late.code == "RequestTimeTooSkewed"
    assert "clock is 3600 seconds behind" in cause_of(logged, late).replace("3601", "3600")
    unknown = wire.using(access_key="nobody")("GET", "/bucket/k")
    assert line_of(logged, unknown)["access_key"] == "nobody"
    assert "unknown access key" in cause_of(logged, unknown)

    proxied = signed_as(logged, "/bucket/k", "/bucket/k", "s3.example.com", X_Forwarded_Host="s3.example.com")
    assert cause_of(logged, proxied).startswith("Host: the client signed for 's3.example.com'")
    doubled = signed_as(logged, "/bucket/a%2520b", "/bucket/a%20b")
    assert "encodes the path twice" in cause_of(logged, doubled)
    region = wire.using(region="eu-west-1")
    headers = signed_headers(region.identity, "GET", f"{wire.endpoint}/bucket/k", {"Host": wire.netloc})
    headers["Authorization"] = headers["Authorization"].replace("/eu-west-1/", "/us-west-2/")
    assert cause_of(logged, wire.send("GET", "/bucket/k", headers)).startswith("most likely the secret key")
    headers = signed_headers(wire.identity, "GET", f"{wire.endpoint}/bucket/k", {"Host": wire.netloc})
    headers["Authorization"] = headers["Authorization"].replace("/us-east-1/", "/us-west-2/")
    assert "signed for 'us-east-1' and names 'us-west-2'" in cause_of(logged, wire.send("GET", "/bucket/k", headers))


def test_a_presigned_signature_is_never_logged(logged: Running) -> None:
    wire = logged.wire
    url = presigned_url(wire.identity, "GET", f"{wire.endpoint}/bucket/k", headers={"Host": wire.netloc})
    signature = url.rpartition("Signature=")[2]
    assert len(signature) == 64
    target = url.removeprefix(wire.endpoint)
    # It is valid for another host: whoever reads it in a log could still use it there.
    assert cause_of(logged, wire.send("GET", target, {"Host": f"elsewhere:{wire.netloc.split(':')[1]}"})).startswith(
        "Host"
    )
    assert cause_of(logged, wire.send("GET", target.replace("/k?", "/other?"), {"Host": wire.netloc}))
    # Nor from an unexpected place: here it is part of a key.
    hidden = wire.using(secret_key="wrong")("GET", f"/bucket/k%3FX-Amz-Signature={signature}")
    assert line_of(logged, hidden)["key"] == "k?X-Amz-Signature=***"
    assert signature not in logged.text()


FORGED = "a%0A12:00:00%20INFO%20orcas:%20Ready%0D%1B%5B2J%C2%9B31m%E2%80%AE%E2%80%A8"


def test_keys_cannot_forge_lines(logged: Running, tmp_path: Path) -> None:
    answer = logged.wire.using(secret_key="wrong")("GET", f"/bucket/{FORGED}")
    line = line_of(logged, answer)
    assert line["key"] == "a\n12:00:00 INFO orcas: Ready\r\x1b[2J\x9b31m\u202e\u2028", "JSON keeps what was sent"
    assert logged.text().replace("\n", "").isprintable()
    # The longest key is shown in full, anything longer is cut.
    long = logged.wire.using(secret_key="wrong")("GET", "/bucket/" + "x" * 1024)
    assert line_of(logged, long)["key"] == "x" * 1024
    longer = logged.wire("GET", "/bucket/" + "y" * 20_000)
    assert longer.code == "KeyTooLongError"
    assert len(json.dumps(line_of(logged, longer))) < 3_000
    with serving(tmp_path, level="debug", form="human") as running:
        running.wire.using(secret_key="wrong")("GET", f"/bucket/{FORGED}")
        assert wait_until(lambda: running.text().count("INFO orcas: Ready") == 2)
        lines = running.text().splitlines()
        assert not [line for line in lines if not line.isprintable() or line.startswith("12:00:00 INFO orcas: Ready")]
        assert any('key="a\\n12:00:00 INFO' in line for line in lines)


def test_a_flood_leaves_a_few_lines_and_hides_no_other_refusal(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json") as running:
        wire = running.wire.using(secret_key="wrong")
        for number in range(200):
            assert wire("GET", f"/bucket/{number}").status == 403
        other = running.wire("GET", "/no-such-bucket/k")
        assert line_of(running, other)["code"] == "NoSuchBucket"
        flood = [line for line in running.lines() if line.get("code") == "SignatureDoesNotMatch"]
        assert 50 <= len(flood) < 100
        assert running.stop() == 0
        counted = [line for line in running.lines() if line.get("kind") == "SignatureDoesNotMatch"]
        suppressed = sum(line.get("suppressed", 0) for line in flood)
        assert suppressed + sum(int(line["message"].split()[0]) for line in counted) + len(flood) == 200


def test_answers_of_development_mode_explain(tmp_path: Path) -> None:
    with serving(tmp_path, "--dev", level="info", form="human") as running:
        right = running.wire
        assert right("PUT", "/bucket").status == 200
        answer = signed_as(running, "/bucket/k", "/bucket/k", "s3.example.com", X_Forwarded_Host="s3.example.com")
        assert answer.error["LikelyCause"].startswith("Host: the client signed for 's3.example.com'")
        canonical = answer.error["CanonicalRequest"]
        assert canonical.startswith(f"GET\n/bucket/k\n\nhost:{right.netloc}\n")
        assert answer.error["StringToSign"].startswith("AWS4-HMAC-SHA256\n")
        headers = signed_headers(right.identity, "GET", f"{right.endpoint}/bucket/k", {"Host": right.netloc})
        assert right.send("GET", "/bucket/k", headers).code == "NoSuchKey"
        assert wait_until(lambda: "likely_cause=" in running.text())
        assert "LikelyCause" not in right("GET", "/no-such-bucket").error


def test_development_mode_answers_to_no_name_of_a_stranger(tmp_path: Path) -> None:
    """A page whose name points to this machine could sign with the published keys, but says its name."""
    with serving(tmp_path, "--dev", "--domain", "s3.test", level="info", form="human") as running:
        wire = running.wire
        port = wire.netloc.rpartition(":")[2]
        assert wire("PUT", "/bucket").status == 200
        for host in ("rebound.example.org", "localhost.example.org"):
            headers = signed_headers(wire.identity, "GET", f"http://{host}:{port}/bucket", {"Host": f"{host}:{port}"})
            answer = wire.send("GET", "/bucket", headers)
            assert (answer.status, answer.error["Code"]) == (403, "AccessDenied")
            assert "given with --domain" in answer.error["Message"]
        for host in ("localhost", "bucket.localhost", "s3.test", "bucket.s3.test"):
            path = "/" if host.startswith("bucket") else "/bucket"
            headers = signed_headers(wire.identity, "GET", f"http://{host}:{port}{path}", {"Host": f"{host}:{port}"})
            answer = wire.send("GET", path, headers)
            assert (answer.status, b"<Name>bucket</Name>" in answer.body) == (200, True)


def test_answers_in_use_show_what_was_signed_but_not_what_is_wrong(logged: Running) -> None:
    always = {"Code", "Message", "Resource", "RequestId", "HostId", "AWSAccessKeyId", "SignatureProvided"}
    wrong = logged.wire.using(secret_key="wrong")
    error = wrong("GET", "/bucket/k").error
    texts = ("StringToSign", "CanonicalRequest")
    assert set(error) == always | {name + suffix for name in texts for suffix in ("", "Bytes")}
    for name in texts:
        assert error[name + "Bytes"] == error[name].encode().hex(" ")
    assert error["CanonicalRequest"].startswith(f"GET\n/bucket/k\n\nhost:{wrong.netloc}\n")
    digest = hashlib.sha256(error["CanonicalRequest"].encode()).hexdigest()
    assert error["StringToSign"].splitlines()[::3] == ["AWS4-HMAC-SHA256", digest]
    # A large head costs no second look.
    large = wrong("GET", "/bucket/k", "prefix=" + "a" * 8192).error
    assert set(large) == always


def start_of(running: Running) -> dict[str, Any]:
    """The line that tells how the server started."""
    (ready,) = [line for line in running.lines() if line["message"] == "Ready"]
    return ready


def test_start_recovery_and_end_are_told(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json") as running:
        ready = start_of(running)
        assert (ready["message"], ready["url"]) == ("Ready", running.url)
        assert (ready["last_stop"], ready["recovery"]) == ("clean", "none"), "the store is new"
        assert (ready["data"], ready["durability"]) == (str(tmp_path / "store"), "sync")
        assert ready["version"]
        assert running.wire("PUT", "/bucket").status == 200
        os.kill(running.process.pid, signal.SIGKILL)
    with serving(tmp_path, level="info", form="json") as running:
        ready = start_of(running)
        assert (ready["last_stop"], ready["recovery"]) == ("unclean", "log replayed")
        assert ready["replayed_records"] >= 1
        assert ready["opened_in_sec"] > 0
        with running.wire.connect() as waiting:
            waiting.send(request_head("GET", "/", {"Host": "a"}))
            assert waiting.response().status == 403
        assert running.stop() == 0
        told = [line["message"] for line in running.lines() if line["logger"] == "orcas"]
        assert (told[0], told[-2:]) == ("Ready", ["Stopping", "Stopped"])
    with serving(tmp_path, level="info", form="json") as running:
        ready = start_of(running)
        assert (ready["last_stop"], ready["recovery"]) == ("clean", "none")
        os.kill(running.process.pid, signal.SIGKILL)
    with serving(tmp_path, level="info", form="json") as running:
        ready = start_of(running)
        assert (ready["last_stop"], ready["recovery"]) == ("unclean", "none"), "there was nothing to replay"


def test_refusals_of_strangers_name_the_setting_of_the_operator(tmp_path: Path) -> None:
    get = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [get]}).encode()
    with serving(tmp_path, level="info", form="json", ORCAS_PUBLIC_ACCESS="blocked") as running:
        wire = running.wire
        assert wire("PUT", "/bucket").status == 200
        refused = wire("PUT", "/bucket", "policy=", body=policy)
        assert refused.code == "AccessDenied"
        assert (
            b"BlockPublicPolicy setting in S3 Block Public Access, as ORCAS_PUBLIC_ACCESS is blocked." in refused.body
        )
        refused = wire.send("GET", "/bucket/k", {"Host": wire.netloc})
        assert refused.code == "AccessDenied"
        assert line_of(running, refused)["cause"].endswith("allows s3:GetObject, as ORCAS_PUBLIC_ACCESS is blocked)")
