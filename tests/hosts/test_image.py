"""The image as processes: its entry point, variables, health check, and the commands of others that it has."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.fixtures.events.certificates import certify
from tests.fixtures.servers.image import FILE, Container, commands
from tests.fixtures.sources import ROOT
from tests.fixtures.waiting import wait_until
from tests.hosts.test_minio import free_port


def starts(root: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Ways of starting a server: the command, and variables."""
    port, certificates = free_port(), root / "certificates"
    certificates.mkdir()
    certificate, key = certify(root)
    certificate.rename(certificates / "public.crt")
    key.rename(certificates / "private.key")
    elsewhere = str(root / "elsewhere")
    return {
        "serve": (["serve"], {"ORCAS_PORT": str(port)}),
        "memory": (["serve", "--memory", "--port", str(port)], {}),
        "minio": (["minio", "server", elsewhere, "--address", f"127.0.0.1:{port}"], {}),
        "tls": (["server", elsewhere, "--certs-dir", str(certificates)], {"MINIO_ADDRESS": f"127.0.0.1:{port}"}),
        "localstack": (["localstack"], {"GATEWAY_LISTEN": f"127.0.0.1:{port}"}),
    }


@pytest.mark.parametrize("name", ["serve", "memory", "minio", "tls", "localstack"])
def test_the_health_check_finds_the_server_however_it_was_started(container: Container, name: str) -> None:
    command, variables = starts(container.root)[name]
    # It asks no proxy.
    container.variables |= variables | {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    assert not container.is_healthy
    with container.running(*command):
        assert container.is_healthy
        status = container.run("orcas", "status", "--json")
        assert json.loads(status.stdout)["health"] == "ok", status.stderr
        listed = container.run("orcas", "mb", "s3://photos")
        assert listed.returncode == 0, listed.stderr
    assert not container.is_healthy
    assert not (container.root / "server").is_symlink()


def test_a_link_is_put_in_place_of_a_link_alone(container: Container) -> None:
    place = container.root / "server"
    place.write_text("something else")
    with container.running("serve", "--port", str(free_port())):
        assert container.is_healthy, "the store is where the variable says"
    assert "cannot be made (there is something else than a symbolic link" in (container.root / "log").read_text()
    assert place.read_text() == "something else"


def test_scripts_that_call_mc_set_the_server_up(container: Container) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with container.running("minio", "server", str(container.root / "store"), "--address", f"127.0.0.1:{port}"):
        (container.root / "pictures").mkdir()
        (container.root / "pictures" / "a.txt").write_text("content")
        script = f"""
            set -e
            mc ready local
            mc alias set --api s3v4 my {url} minioadmin minioadmin
            mc config host add older {url}/ minioadmin minioadmin
            mc mb --ignore-existing my/images older/backups
            mc mb -p my/images
            mc mb my/locked
            mc anonymous set download my/images
            mc cp pictures/a.txt my/images/b.txt
            mc cp --recursive pictures my/images/
            mc cp my/images/b.txt local/images/c.txt || mc cp my/images/b.txt my/images/c.txt
            mc ls --recursive my/images
            mc version enable my/backups
            MC_HOST_env=http://minioadmin:minioadmin@127.0.0.1:{port} mc ls env/
            mc --version
        """
        done = container.run("sh", "-c", script)
        assert done.returncode == 0, done.stderr
        names = [line.split()[-1] for line in done.stdout.splitlines() if re.match(r"\d{4}-", line)]
        assert names == ["b.txt", "c.txt", "pictures/a.txt", "backups", "images", "locked"]
        with urllib.request.urlopen(f"{url}/images/b.txt", timeout=60) as answer:
            assert answer.read() == b"content"
        refused = container.run("mc", "alias", "set", "my", url, "minioadmin", "wrong-secret")
        assert (refused.returncode, "my" in (container.root / "mc" / "config.json").read_text()) == (1, True)
        assert (container.root / "mc" / "config.json").stat().st_mode & 0o777 == 0o600
        assert container.run("mc", "anonymous", "set", "none", "my/images").returncode == 0
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/images/b.txt", timeout=60)
    unreachable = container.run("mc", "alias", "set", "my", url, "minioadmin", "minioadmin")
    assert unreachable.returncode != 0, "scripts repeat it until the server is there"


def test_modules_of_testcontainers_find_their_entry_point(container: Container) -> None:
    port = free_port()
    # They put a script in place of the entry point. This one can be ended.
    script = container.root / "testcontainers_start.sh"
    script.write_text(
        "#!/bin/bash\nexport LAMBDA_DOCKER_FLAGS='-l org.testcontainers=true'\nexec docker-entrypoint.sh\n"
    )
    script.chmod(0o777)
    container.variables |= {"GATEWAY_LISTEN": f"127.0.0.1:{port}", "SERVICES": "s3", "AWS_ACCESS_KEY_ID": "test"}
    container.variables |= {"AWS_SECRET_ACCESS_KEY": "test", "LOCALSTACK_HOST": "localhost"}
    waiting = f"while [ ! -f {script} ]; do sleep 0.1; done; exec {script}"
    with container.running(waiting, entry_point=("sh", "-c")):
        assert wait_until(lambda: "Ready.\n" in (container.root / "log").read_text())
        assert container.run("awslocal", "s3", "mb", "s3://photos").returncode == 0


@pytest.mark.parametrize("command", ["awslocal", "aws --endpoint-url {url}", "aws"])
def test_scripts_that_call_aws_set_the_server_up(container: Container, command: str) -> None:
    port = free_port()
    container.variables["GATEWAY_LISTEN"] = f"127.0.0.1:{port}"
    with container.running("localstack"):
        program = command.format(url=f"http://127.0.0.1:{port}")
        (container.root / "a.txt").write_text("content")
        script = f"""
            set -e
            {program} s3 mb s3://photos
            {program} s3api create-bucket --bucket others --region eu-west-1 \\
                --create-bucket-configuration LocationConstraint=eu-west-1
            {program} s3 cp a.txt s3://photos/b.txt --content-type text/x-notes
            {program} s3 ls s3://photos
            {program} s3 rm s3://photos --recursive
            {program} s3 rb s3://photos
            {program} s3 ls
        """
        done = container.run("sh", "-c", script)
        assert done.returncode == 0, done.stderr
        names = [line.split()[-1] for line in done.stdout.splitlines() if re.match(r"\d{4}-", line)]
        assert names == ["b.txt", "others"]


def test_the_command_of_aws_takes_the_place_of_the_one_of_the_image(container: Container) -> None:
    own = container.root / "bin" / "aws"
    own.write_text('#!/bin/sh\necho "$AWS_ACCESS_KEY_ID" "$@"\n')
    own.chmod(0o755)
    done = container.run("awslocal", "sqs", "list-queues", LOCALSTACK_HOST="localstack")
    assert done.stdout == "test --endpoint-url http://localstack:4566 sqs list-queues\n"
    done = container.run("awslocal", "s3", "ls", AWS_ACCESS_KEY_ID="mine", AWS_ENDPOINT_URL="http://other:1")
    assert done.stdout == "mine --endpoint-url http://other:1 s3 ls\n"


def test_the_image_has_the_commands_and_curl() -> None:
    assert "COPY deploy/bin /usr/local/bin" in FILE
    assert re.search(r"apt-get install .*\bcurl\b", FILE[FILE.index("FROM python:") :])
    assert all(os.access(path, os.X_OK) for path in (ROOT / "deploy" / "bin").iterdir())


def test_services_without_a_command_have_an_image() -> None:
    assert commands() == {"orcas": ["serve"], "minio": ["server", "/data"], "localstack": ["localstack"]}
    assert FILE.rstrip().endswith("\nFROM orcas"), "the last one is what a build without a target makes"


def test_a_container_with_the_variables_of_minio_and_no_command_says_so(container: Container) -> None:
    container.variables |= {"MINIO_ROOT_USER": "operator", "MINIO_ROOT_PASSWORD": "a-long-secret"}
    with container.running("serve", "--port", str(free_port())):
        assert "MINIO_ROOT_USER has no effect on orcas serve" in (container.root / "log").read_text()
