"""What public projects do with MinIO or LocalStack, done with Orcas as a plain process.

The steps are those of November 2026, with other ports, directories and addresses; docs/instead-of-minio.md and
docs/instead-of-localstack.md list the projects.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.fixtures.servers.image import Container, commands
from tests.fixtures.waiting import wait_until
from tests.hosts.test_minio import free_port


def aws_of(port: int, region: str = "us-east-1") -> tuple[str, ...]:
    """AWS's own command for the server at a port."""
    program = str(Path(sys.executable).with_name("aws"))
    return program, f"--endpoint-url=http://127.0.0.1:{port}", f"--region={region}"


# https://github.com/grafana/loki examples/getting-started/docker-compose.yaml
def test_directories_that_an_entry_point_makes_are_buckets(container: Container) -> None:
    port, data = free_port(), container.root / "store"
    container.variables |= {
        "MINIO_ROOT_USER": "loki", "MINIO_ROOT_PASSWORD": "supersecret", "MINIO_PROMETHEUS_AUTH_TYPE": "public",
        "MINIO_UPDATE": "off", "MINIO_ADDRESS": f"127.0.0.1:{port}",
    }  # fmt: skip
    script = f"mkdir -p {data}/loki-data && mkdir -p {data}/loki-ruler && exec minio server {data}"
    # The same directory a second time is a store.
    for _ in range(2):
        with container.running("sh", "-euc", script, entry_point=()):
            done = container.run("curl", "-f", f"http://127.0.0.1:{port}/minio/health/live")
            assert done.returncode == 0, done.stderr
            listed = container.run("mc", "ls", "local")
            assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["loki-data", "loki-ruler"]
            assert container.run("mc", "cp", "log", "local/loki-data/").returncode == 0


# https://github.com/apache/iceberg-python dev/docker-compose-integration.yml
def test_a_container_beside_it_waits_and_makes_buckets(container: Container) -> None:
    port = free_port()
    variables = {"MINIO_ROOT_USER": "admin", "MINIO_ROOT_PASSWORD": "password", "MINIO_DOMAIN": "minio.test"}
    script = f"""
        until (mc alias set minio http://127.0.0.1:{port} admin password) do echo waiting && sleep 0.1; done;
        mc mb minio/warehouse;
        mc policy set public minio/warehouse;
    """
    waits = subprocess.Popen(["sh", "-ec", script], env=container.variables, cwd=container.root)
    with waits as beside, contextlib.ExitStack() as stack:
        stack.callback(beside.kill)
        container.variables |= variables
        console = ("--console-address", f":{free_port()}")
        with container.running("server", "store", *console, "--address", f"127.0.0.1:{port}"):
            assert beside.wait(60) == 0
            request = urllib.request.Request(f"http://127.0.0.1:{port}/k", b"content", method="PUT")
            request.add_header("Host", "warehouse.minio.test")
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
            assert container.run("mc", "ls", "minio/warehouse").stdout.split()[-1] == "k"


# https://github.com/xtreme1-io/xtreme1 docker-compose.yml; nextcloud/server .github/workflows/object-storage-s3.yml
def test_an_image_of_bitnami_is_its_variables(container: Container) -> None:
    port = free_port()
    container.variables |= {
        "MINIO_ROOT_USER": "admin", "MINIO_ROOT_PASSWORD": "1tQB970y", "MINIO_DEFAULT_BUCKETS": "xtreme1:download",
        "MINIO_API_PORT_NUMBER": str(port),
    }  # fmt: skip
    command = [str(container.root / "store") if word == "/data" else word for word in commands()["minio"]]
    with container.running(*command):
        url = f"http://127.0.0.1:{port}"
        retries = ("--retry-connrefused", "--retry", "10", "--retry-delay", "1")
        done = container.run("curl", "--silent", "-f", "-m", "1", *retries, f"{url}/minio/health/ready")
        assert done.returncode == 0, done.stderr
        assert container.run("mc", "cp", "log", "local/xtreme1/log").returncode == 0
        with urllib.request.urlopen(f"{url}/xtreme1/log", timeout=60) as answer:
            assert answer.status == 200


# https://github.com/apache/arrow-rs-object-store .github/workflows/ci.yml; delta-io/delta-rs docker-compose.yml;
# nextcloud/server .github/workflows/files-external-s3.yml
def test_workflows_with_the_command_of_aws_do_their_steps(container: Container) -> None:
    port = free_port()
    container.variables |= {"GATEWAY_LISTEN": f"127.0.0.1:{port}", "SERVICES": "s3,dynamodb", "DEBUG": "1"}
    container.variables |= {"AWS_ACCESS_KEY_ID": "deltalake", "AWS_SECRET_ACCESS_KEY": "weloverust"}
    aws = aws_of(port)
    with container.running("localstack"):
        assert container.run(*aws, "s3", "mb", "s3://test-bucket").returncode == 0
        lock = ("--bucket", "test-object-lock", "--object-lock-enabled-for-bucket")
        assert container.run(*aws, "s3api", "create-bucket", *lock).returncode == 0
        assert container.run(*aws, "s3api", "get-object-lock-configuration", *lock[:2]).returncode == 0
        # What differs: there is neither KMS nor DynamoDB, keys are verified, and /health is the path of a bucket.
        refused = container.run(*aws, "kms", "create-key", "--description", "test key")
        assert "(NotImplemented)" in refused.stderr or "501" in refused.stderr, refused.stderr
        ignored = {"AWS_ACCESS_KEY_ID": "ignored", "AWS_SECRET_ACCESS_KEY": "ignored"}
        refused = container.run(*aws, "s3", "ls", **ignored)
        assert "InvalidAccessKeyId" in refused.stderr
        assert "does not exist in our records" in refused.stderr
        assert container.run("curl", "-f", f"http://127.0.0.1:{port}/health").returncode != 0
        assert container.run("curl", "-f", f"http://127.0.0.1:{port}/_localstack/health").returncode == 0


# https://github.com/laravel/sail stubs/minio.stub
def test_a_health_check_asks_whether_the_cluster_is_ready(container: Container) -> None:
    port, store = free_port(), container.root / "store"
    container.variables |= {"MINIO_ROOT_USER": "sail", "MINIO_ROOT_PASSWORD": "password"}
    command = ("minio", "server", str(store), "--address", f"127.0.0.1:{port}", "--console-address", f":{free_port()}")
    with container.running(*command):
        done = container.run("mc", "ready", "local")
        assert done.returncode == 0, done.stderr
        # What Laravel's documents have one do next in the console.
        assert container.run("mc", "mb", "local/local").returncode == 0
        assert container.run("mc", "cp", "log", "local/local/avatars/1.txt").returncode == 0


# https://github.com/discourse/minio_runner lib/minio_runner
def test_a_gem_starts_the_server_for_a_suite(container: Container) -> None:
    port, name = free_port(), "localhost"
    container.variables |= {
        "MINIO_ROOT_USER": "minioadmin", "MINIO_ROOT_PASSWORD": "minioadmin", "MINIO_DOMAIN": name,
    }  # fmt: skip
    # The gem calls the two programs by the names under which it has kept them.
    command = ("minio", "server", str(container.root / "data"), "--console-address", f":{free_port()}")
    with container.running(*command, "--address", f"{name}:{port}", entry_point=()):
        with urllib.request.urlopen(f"http://{name}:{port}/minio/health/live", timeout=60) as answer:
            assert answer.status == 200
        made = container.run("mc", "alias", "set", "local", f"http://localhost:{port}", "minioadmin", "minioadmin")
        assert made.returncode == 0, made.stderr
        for bucket in ("private", "shared"):
            assert container.run("mc", "ls", f"local/{bucket}").returncode != 0, "there is no such bucket yet"
            assert container.run("mc", "mb", f"local/{bucket}").returncode == 0
            assert container.run("mc", "ls", f"local/{bucket}").returncode == 0
        assert container.run("mc", "anonymous", "set", "public", "local/shared").returncode == 0
        request = urllib.request.Request(f"http://127.0.0.1:{port}/k", b"content", method="PUT")
        request.add_header("Host", f"shared.{name}:{port}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://{name}:{port}/private/k", timeout=60)


# https://github.com/distribution/distribution tests/docker-compose-storage.yml
def test_a_bucket_is_made_unless_it_is_there(container: Container) -> None:
    port = free_port()
    container.variables |= {"MINIO_ROOT_USER": "distribution", "MINIO_ROOT_PASSWORD": "password"}
    script = f"""
        mc config host add minio http://127.0.0.1:{port} $MINIO_ROOT_USER $MINIO_ROOT_PASSWORD && (
            mc stat minio/images-local || mc mb minio/images-local
        ) && mc anonymous set public minio/images-local
    """
    console = ("--console-address", f":{free_port()}")
    with container.running("server", "store", *console, "--address", f"127.0.0.1:{port}"):
        done = container.run("curl", "-f", f"http://127.0.0.1:{port}/minio/health/live")
        assert done.returncode == 0, done.stderr
        # With the same directory, the containers are started again and again.
        for _ in range(2):
            done = container.run("bash", "-c", script)
            assert done.returncode == 0, done.stderr
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/images-local", timeout=60) as answer:
            assert answer.status == 200


# https://github.com/plausible/analytics Makefile
def test_a_makefile_starts_the_server_and_ends_it(container: Container) -> None:
    port = free_port()
    script = f"""
        set -e
        MINIO_ROOT_USER=minioadmin MINIO_ROOT_PASSWORD=minioadmin minio server data --address "127.0.0.1:{port}" \\
            --console-address ":{free_port()}" >minio.log 2>&1 & echo $! >minio.pid
        i=0
        until mc alias set local http://127.0.0.1:{port} minioadmin minioadmin >/dev/null 2>&1; do
            i=$((i+1)); if [ $i -gt 60 ]; then tail -n 50 minio.log; exit 1; fi
            sleep 1
        done
        mc mb --ignore-existing local/test-exports
        mc mb --ignore-existing local/test-imports
    """
    try:
        for _ in range(2):
            done = container.run("sh", "-c", script)
            assert done.returncode == 0, done.stdout + done.stderr
            listed = container.run("mc", "ls", "local")
            assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["test-exports", "test-imports"]
            assert container.run("sh", "-c", "kill $(cat minio.pid)").returncode == 0
            assert wait_until(lambda: container.run("curl", f"http://127.0.0.1:{port}").returncode != 0)
    finally:
        container.run("sh", "-c", "kill $(cat minio.pid)")


# https://github.com/risingwavelabs/risingwave docker/docker-compose.yml
def test_the_entry_point_of_the_image_of_minio_is_there(container: Container) -> None:
    port, store = free_port(), container.root / "data"
    container.variables |= {
        "MINIO_CI_CD": "1", "MINIO_PROMETHEUS_AUTH_TYPE": "public", "MINIO_PROMETHEUS_URL": "http://127.0.0.1:9",
        "MINIO_ROOT_PASSWORD": "hummockadmin", "MINIO_ROOT_USER": "hummockadmin", "MINIO_DOMAIN": "minio-0",
    }  # fmt: skip
    # /usr/bin/docker-entrypoint.sh in the image.
    script = f"""
        set -e
        mkdir -p "{store}/hummock001"
        docker-entrypoint.sh "$0" "$@"
    """
    words = ("server", "--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{free_port()}", str(store))
    log = container.root / "log"
    for _ in range(2):
        with log.open("w") as out, subprocess.Popen(
            ["/bin/sh", "-c", script, *words], env=container.variables, stdout=out, stderr=out, start_new_session=True
        ) as process:  # fmt: skip
            try:
                assert wait_until(lambda: "orcas ready" in log.read_text() or process.poll() is not None)
                probe = rf"printf 'GET / HTTP/1.1\n\n' >/dev/tcp/127.0.0.1/{port}; exit $?;"
                assert container.run("bash", "-c", probe).returncode == 0
                assert container.run("mc", "ls", "local").stdout.split()[-1] == "hummock001"
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/minio/v2/metrics/cluster", timeout=60) as answer:
                    assert answer.status == 200
            finally:
                # The shell passes no signal on, so Docker ends such a container with SIGKILL.
                os.killpg(process.pid, signal.SIGKILL)


# https://github.com/awspring/spring-cloud-aws spring-cloud-aws-docker-compose; FoundatioFx/Foundatio.AWS
# docker-compose.yml; dapr/components-contrib .github/infrastructure/docker-compose-s3.yml
@pytest.mark.parametrize(
    ("variables", "key", "secret", "region"),
    [
        ({"AWS_ACCESS_KEY_ID": "noop", "AWS_SECRET_ACCESS_KEY": "noop", "AWS_DEFAULT_REGION": "eu-central-1"},
         "noop", "noop", "eu-central-1"),
        ({"SERVICES": "sqs,sns,s3,cloudwatch", "DEBUG": "1"}, "xxx", "xxx", "us-east-1"),
        ({"DEBUG": "1", "DOCKER_HOST": "unix:///var/run/docker.sock"}, "my-access", "my-secret", "us-east-1"),
    ],
    ids=["spring", "foundatio", "dapr"],
)  # fmt: skip
def test_clients_have_the_keys_of_the_service(
    container: Container, variables: dict[str, str], key: str, secret: str, region: str
) -> None:
    port = free_port()
    keys = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    container.variables |= variables | {"GATEWAY_LISTEN": f"127.0.0.1:{port}"}
    aws = aws_of(port, region)
    if "AWS_ACCESS_KEY_ID" not in variables:
        # What differs: keys are verified, so the service needs those of its clients, or is told not to look.
        with container.running("localstack"):
            refused = container.run(*aws, "s3", "mb", "s3://test-bucket", **keys)
            assert "InvalidAccessKeyId" in refused.stderr
        container.variables |= keys if key == "xxx" else {"S3_SKIP_SIGNATURE_VALIDATION": "1"}
    # An init script, which has no keys of its own.
    ready = container.root / "init" / "ready.d"
    ready.mkdir(parents=True)
    script = ready / "init-aws.sh"
    script.write_text("#!/bin/bash\n\nawslocal s3 mb s3://conformance-test-docker\n")
    script.chmod(0o755)
    container.variables["LOCALSTACK_INIT_DIR"] = str(ready.parent)
    with container.running("localstack"):
        assert wait_until(lambda: "Ready.\n" in (container.root / "log").read_text())
        assert container.run("curl", "-f", f"http://127.0.0.1:{port}/_localstack/health").returncode == 0
        place = ("--create-bucket-configuration", f"LocationConstraint={region}") if region != "us-east-1" else ()
        made = container.run(*aws, "s3api", "create-bucket", "--bucket", "test-bucket", *place, **keys)
        assert made.returncode == 0, made.stderr
        assert container.run(*aws, "s3", "cp", "log", "s3://conformance-test-docker/a/b", **keys).returncode == 0
        listed = container.run(*aws, "s3", "ls", **keys)
        assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["conformance-test-docker", "test-bucket"]
        queues = container.run(*aws, "sqs", "list-queues", **keys)
        assert queues.returncode != 0
        assert "NotImplemented" in queues.stderr or "501" in queues.stderr, queues.stderr
