"""`orcas minio server` as a process: what those who started MinIO's server find in its place."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.fixtures.events.receivers import receiving
from tests.fixtures.waiting import wait_until

from orcas.settings.config import child_environment

KEYS = ("operator", "a-long-secret")


@dataclass
class Running:
    """A server, and what it has printed."""

    process: subprocess.Popen[str]
    port: int
    console_port: int
    printed: list[str]
    log: Path

    def client(self, keys: tuple[str, str] | None = KEYS) -> Any:
        config: dict[str, Any] = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}}
        if keys is None:
            config["signature_version"] = UNSIGNED
        access_key, secret_key = keys or (None, None)
        return boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1", config=Config(**config),
            aws_access_key_id=access_key, aws_secret_access_key=secret_key,
        )  # fmt: skip

    def ask(self, method: str, path: str, port: int | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def free_port() -> int:
    """A port that no client gets as its own: one that connects to a free port of that range again and again takes it."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            return int(listener.getsockname()[1])


@contextlib.contextmanager
def running(
    directory: Path, *arguments: str, command: tuple[str, ...] = ("minio", "server"), **variables: str
) -> Iterator[Running]:
    """A server with a console on another port."""
    console_port, log = free_port(), directory / f"log-{time.monotonic_ns()}"
    whole = [
        sys.executable, "-m", "orcas", *command, "--console-address", f":{console_port}", "--address", "127.0.0.1:0",
        str(directory / "data"), *arguments,
    ]  # fmt: skip
    environment = child_environment() | {"HOME": str(directory), "ORCAS_LOG_FORMAT": "json"} | variables
    with log.open("w") as out, subprocess.Popen(
        whole, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=out, text=True
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            printed = [process.stdout.readline().rstrip() for _ in range(3)]
            assert printed[0].startswith("orcas ready http://127.0.0.1:"), log.read_text()
            yield Running(process, int(printed[0].rpartition(":")[2]), console_port, printed, log)
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        tmp_path_factory.mktemp("minio"),
        MINIO_ROOT_USER=KEYS[0], MINIO_ROOT_PASSWORD=KEYS[1], MINIO_SCANNER_SPEED="slow",
        MINIO_DEFAULT_BUCKETS="private,images:download,drop:upload,all:public",
    ) as found:  # fmt: skip
        yield found


def test_it_says_what_scripts_look_for(server: Running) -> None:
    assert server.printed[1:] == [
        f"API: http://127.0.0.1:{server.port}", f"WebUI: http://127.0.0.1:{server.console_port}",
    ]  # fmt: skip
    deadline = time.monotonic() + 60
    # It is logged beside what is printed.
    while "Without effect here: MINIO_SCANNER_SPEED" not in server.log.read_text():
        assert time.monotonic() < deadline, server.log.read_text()
        time.sleep(0.05)
    assert "The keys are the published ones" not in server.log.read_text()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("live", 200), ("ready", 200), ("cluster", 200), ("cluster/read", 200),
        ("cluster?maintenance=true", 412), ("cluster/read?maintenance=true", 412),
    ],
)  # fmt: skip
def test_health_is_where_minio_has_it(server: Running, method: str, path: str, status: int) -> None:
    found, headers, body = server.ask(method, f"/minio/health/{path}")
    assert (found, body) == (status, "")
    if path == "cluster":
        assert headers["x-minio-write-quorum"] == "1"


def token(secret: str, **claims: Any) -> str:
    """As `mc admin prometheus generate` makes it."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "HS512", "typ": "JWT"}, {"iss": "prometheus", "sub": KEYS[0], "exp": 2**40} | claims)
    ]
    signature = hmac.digest(secret.encode(), ".".join(parts).encode(), hashlib.sha512)
    return ".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=").decode()])


@pytest.mark.parametrize("path", ["v2/metrics/cluster", "v2/metrics/node", "v2/metrics/bucket", "prometheus/metrics"])
def test_metrics_are_for_a_reader_whose_token_root_has_signed(server: Running, path: str) -> None:
    status, headers, body = server.ask("GET", f"/minio/{path}", authorization=f"Bearer {token(KEYS[1])}")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "orcas_requests_total" in body
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    for wrong in (
        "", "Bearer", "Bearer a.b.c", f"Bearer {token('another-secret')}", f"Bearer {token(KEYS[1], exp=1)}",
        f"Bearer {token(KEYS[1], sub='another')}", f"Bearer {token(KEYS[1], iss='another')}",
        f"Basic {token(KEYS[1])}", f"Bearer {none}.{token(KEYS[1]).split('.', 1)[1]}", "Bearer \xe9.\xe9.\xe9",
    ):  # fmt: skip
        assert server.ask("GET", f"/minio/{path}", authorization=wrong)[0] == 403, wrong


def test_buckets_are_there_with_what_everybody_may_do(server: Running) -> None:
    client, stranger = server.client(), server.client(None)
    assert [each["Name"] for each in client.list_buckets()["Buckets"]] == ["all", "drop", "images", "private"]
    allowed = {}
    for bucket in ("private", "images", "drop", "all"):
        client.put_object(Bucket=bucket, Key="k", Body=b"content")
        allowed[bucket] = tuple(
            may(lambda call=call, bucket=bucket: call(bucket))
            for call in (
                lambda bucket: stranger.get_object(Bucket=bucket, Key="k")["Body"].read(),
                lambda bucket: stranger.list_objects_v2(Bucket=bucket),
                lambda bucket: stranger.put_object(Bucket=bucket, Key="new", Body=b"x"),
            )
        )
    assert allowed == {
        "private": (False, False, False), "images": (True, True, False), "drop": (False, False, True),
        "all": (True, True, True),
    }  # fmt: skip


def may(call: Any) -> bool:
    """Whether it is allowed."""
    try:
        call()
    except ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied"
        return False
    return True


def test_a_bucket_of_a_user_is_made_public_by_its_policy_alone(server: Running) -> None:
    client = server.client()
    client.create_bucket(Bucket="site")
    statement = {
        "Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::site/*"],
    }  # fmt: skip
    client.put_bucket_policy(Bucket="site", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    client.put_object(Bucket="site", Key="k", Body=b"content")
    assert server.client(None).get_object(Bucket="site", Key="k")["Body"].read() == b"content"


def test_a_bucket_that_is_there_is_created_again_as_on_s3(server: Running, tmp_path: Path) -> None:
    # docs/instead-of-minio.md says so: MinIO refuses it in every region.
    assert server.client().create_bucket(Bucket="all")["ResponseMetadata"]["HTTPStatusCode"] == 200
    there = {"LocationConstraint": "eu-central-1"}
    with (
        running(tmp_path, MINIO_REGION="eu-central-1", MINIO_DEFAULT_BUCKETS="all") as elsewhere,
        pytest.raises(ClientError) as refused,
    ):
        elsewhere.client(("minioadmin", "minioadmin")).create_bucket(Bucket="all", CreateBucketConfiguration=there)
    assert refused.value.response["Error"]["Code"] == "BucketAlreadyOwnedByYou"


def test_the_console_is_on_its_port(server: Running) -> None:
    status, headers, _ = server.ask("GET", "/", server.console_port, accept="text/html")
    assert (status, headers["location"]) == (307, "/_orcas/console/")
    status, _, page = server.ask("GET", "/_orcas/console/", server.console_port, accept="text/html")
    assert status in (200, 303) or "sign" in page.lower()
    # Clients of S3 find S3 on both ports.
    assert server.ask("GET", "/", server.console_port)[0] == 403
    # Ports may be mapped to others, so a browser finds the console on both, as with MinIO.
    assert server.ask("GET", "/", accept="text/html")[1]["location"] == "/_orcas/console/"


def test_the_name_of_its_paths_is_no_bucket(server: Running) -> None:
    with pytest.raises(ClientError) as refused:
        server.client().create_bucket(Bucket="minio")
    assert refused.value.response["Error"]["Code"] == "AllAccessDisabled"
    assert server.ask("GET", "/minio/admin/v3/info")[0] == 403
    assert server.ask("GET", "/minio/health/nonsense")[0] == 403
    # Only the name itself.
    server.client().create_bucket(Bucket="minio-data")
    server.client().put_object(Bucket="minio-data", Key="health/live", Body=b"content")
    assert server.client().get_object(Bucket="minio-data", Key="health/live")["Body"].read() == b"content"


def test_a_bucket_that_its_paths_hide_is_named_at_the_start(tmp_path: Path) -> None:
    with running(tmp_path, MINIO_DEFAULT_BUCKETS="minio-data") as server:
        assert "cannot be reached by its path" not in server.log.read_text()
        assert "so a bucket cannot have this name here" in server.ask("PUT", "/minio")[2]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    # Made without a path, as a server that is not in the place of MinIO makes it.
    with running(tmp_path, MINIO_DEFAULT_BUCKETS="minio") as server:
        assert "The bucket minio cannot be reached by its path" in server.log.read_text()


def test_keys_that_nobody_gave_are_those_of_minio_and_data_stays(tmp_path: Path) -> None:
    # The image of MinIO leaves the first word out.
    with running(tmp_path, command=("server",), MINIO_DEFAULT_BUCKETS="images:download") as server:
        server.client(("minioadmin", "minioadmin")).put_object(Bucket="images", Key="k", Body=b"content")
        assert "The keys are the published ones of MinIO" in server.log.read_text()
        server.client(("minioadmin", "minioadmin")).delete_bucket_policy(Bucket="images")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    with running(tmp_path, MINIO_DEFAULT_BUCKETS="images:download") as server:
        found = server.client(("minioadmin", "minioadmin")).get_object(Bucket="images", Key="k")
        assert found["Body"].read() == b"content"
        # What its owner has changed since it was created stays so.
        with pytest.raises(ClientError):
            server.client(None).get_object(Bucket="images", Key="k")


def test_metrics_are_public_when_that_was_asked_for(tmp_path: Path) -> None:
    with running(tmp_path, MINIO_PROMETHEUS_AUTH_TYPE="public") as server:
        assert server.ask("GET", "/minio/v2/metrics/cluster", **{"x-forwarded-for": "192.0.2.1"})[0] == 200


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["minio"], 2, "Only `minio server` is here"),
        (["minio", "gateway", "nas"], 2, "Only `minio server` is here"),
        (["minio", "server", "/data{1...4}"], 2, "one directory of one machine"),
        (["server"], 2, "needs the directory of the store"),
    ],
)
def test_what_is_not_here_is_refused_with_one_sentence(arguments: list[str], code: int, message: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "orcas", *arguments],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == code
    assert message in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "code", "message"),
    [
        # An address for documents, which no machine has.
        ({"MINIO_ADDRESS": "192.0.2.7:9000"}, 69, "give another --address, or stop what listens there"),
        ({"MINIO_DEFAULT_BUCKETS": "My_Bucket"}, 78, "The bucket My_Bucket of MINIO_DEFAULT_BUCKETS cannot be created"),
        (
            {"MINIO_NOTIFY_WEBHOOK_ENABLE_A": "on", "MINIO_NOTIFY_WEBHOOK_ENDPOINT_A": "receiver"},
            78,
            "The target A of the MINIO_NOTIFY variables needs url",
        ),
        (
            {"MINIO_KMS_SECRET_KEY": "k:" + "A" * 43 + "=", "ORCAS_MASTER_PASSPHRASE": "a passphrase"},
            78,
            "MINIO_KMS_SECRET_KEY and ORCAS_MASTER_PASSPHRASE are both set",
        ),
    ],
)
def test_messages_name_what_was_given(tmp_path: Path, variables: dict[str, str], code: int, message: str) -> None:
    environment = child_environment() | {"HOME": str(tmp_path), "MINIO_ADDRESS": "127.0.0.1:0"} | variables
    found = subprocess.run(
        [sys.executable, "-m", "orcas", "minio", "server", str(tmp_path / "data")],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.returncode == code
    assert message in found.stderr.splitlines()[-1]


def test_brokers_are_targets_by_the_arns_of_minio(tmp_path: Path) -> None:
    # Nobody listens there, and nobody has to: events wait in the journal.
    variables = {
        "MINIO_NOTIFY_KAFKA_ENABLE_K": "on", "MINIO_NOTIFY_KAFKA_BROKERS_K": "127.0.0.1:9",
        "MINIO_NOTIFY_KAFKA_TOPIC_K": "events", "MINIO_NOTIFY_NATS_ENABLE_N": "on",
        "MINIO_NOTIFY_NATS_JETSTREAM_N": "on", "MINIO_NOTIFY_NATS_ADDRESS_N": "127.0.0.1:9",
        "MINIO_NOTIFY_NATS_SUBJECT_N": "events", "MINIO_NOTIFY_MYSQL_ENABLE_M": "on", "MINIO_DEFAULT_BUCKETS": "images",
    }  # fmt: skip
    with running(tmp_path, MINIO_ROOT_USER=KEYS[0], MINIO_ROOT_PASSWORD=KEYS[1], **variables) as server:
        arns = ("arn:minio:sqs::K:kafka", "arn:minio:sqs::N:nats")
        queues = [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"], "Id": arn[-5:]} for arn in arns]
        configured = {"QueueConfigurations": queues}
        client = server.client()
        with pytest.raises(ClientError, match="PutBucketNotificationConfiguration"):
            client.put_bucket_notification_configuration(Bucket="images", NotificationConfiguration=configured)
        for queue, prefix in zip(queues, ("k/", "n/"), strict=True):
            queue["Filter"] = {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}
        client.put_bucket_notification_configuration(Bucket="images", NotificationConfiguration=configured)
        found = client.get_bucket_notification_configuration(Bucket="images")["QueueConfigurations"]
        assert [queue["QueueArn"] for queue in found] == list(arns)
        assert wait_until(lambda: "Without effect here: MINIO_NOTIFY_MYSQL_ENABLE_M" in server.log.read_text())


def test_webhooks_get_the_events_of_a_bucket(tmp_path: Path) -> None:
    with receiving() as receiver:
        variables = {
            "MINIO_NOTIFY_WEBHOOK_ENABLE_HOOK": "on", "MINIO_NOTIFY_WEBHOOK_ENDPOINT_HOOK": receiver.url,
            "MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_HOOK": "of-the-receiver", "MINIO_DEFAULT_BUCKETS": "images",
        }  # fmt: skip
        with running(tmp_path, MINIO_ROOT_USER=KEYS[0], MINIO_ROOT_PASSWORD=KEYS[1], **variables) as server:
            queue = {"QueueArn": "arn:minio:sqs::HOOK:webhook", "Events": ["s3:ObjectCreated:*"]}
            client = server.client()
            client.put_bucket_notification_configuration(
                Bucket="images", NotificationConfiguration={"QueueConfigurations": [queue]}
            )
            client.put_object(Bucket="images", Key="k", Body=b"content")
            assert wait_until(lambda: len(receiver.received) == 1)
    event = json.loads(receiver.received[0].body)
    assert (event["EventName"], event["Key"]) == ("s3:ObjectCreated:Put", "images/k")
    (record,) = event["Records"]
    assert (record["eventName"], record["s3"]["object"]["key"]) == ("s3:ObjectCreated:Put", "k")
    assert receiver.received[0].headers["authorization"] == "Bearer of-the-receiver"
