"""A watch over the network: what the processes of a command look up and connect to, beyond this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orcas.settings.config import child_environment

# Python imports this at its start, in every process that inherits PYTHONPATH.
WATCH: Final = """
import os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else ""
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0] or ""
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host and host not in ("localhost", "::1") and not host.startswith("127."):
        with open(os.environ["WATCH"], "a") as file:
            file.write(f"{event} {host}\\n")

sys.addaudithook(watch)
"""
# What a developer has, all of which leads to AWS, or to nothing.
_CONFIG: Final = """
[default]
region = eu-west-3
s3 =
    use_accelerate_endpoint = true
[profile work]
region = eu-west-3
role_arn = arn:aws:iam::123456789012:role/work
source_profile = default
use_fips_endpoint = true
"""
_CREDENTIALS: Final = """
[default]
aws_access_key_id = AKIADEVELOPER0000000
aws_secret_access_key = the-secret-of-the-developer
"""
DEVELOPER: Final = {
    "AWS_ACCESS_KEY_ID": "AKIADEVELOPER0000000",
    "AWS_SECRET_ACCESS_KEY": "the-secret-of-the-developer",
    "AWS_SECURITY_TOKEN": "stale",
    "AWS_SESSION_TOKEN": "stale",
    "AWS_DEFAULT_PROFILE": "work",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
    "AWS_USE_FIPS_ENDPOINT": "true",
    "AWS_USE_DUALSTACK_ENDPOINT": "true",
    "AWS_ENDPOINT_URL_SQS": "https://sqs.eu-west-3.amazonaws.com",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.2/credentials",
    "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/work",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/dev/null",
}


def environment_of_developer(directory: Path, **variables: str) -> dict[str, str]:
    """The variables of a developer, with a home and a watch in `directory`."""
    (directory / ".aws").mkdir(parents=True, exist_ok=True)
    (directory / ".aws" / "config").write_text(_CONFIG)
    (directory / ".aws" / "credentials").write_text(_CREDENTIALS)
    (directory / "sitecustomize.py").write_text(WATCH)
    named = {"HOME": str(directory), "WATCH": str(directory / "seen")} | variables
    named["PYTHONPATH"] = os.pathsep.join(filter(None, (str(directory), variables.get("PYTHONPATH"))))
    return child_environment() | DEVELOPER | named


def assert_nothing_left(directory: Path) -> None:
    """Nobody who had these variables has looked for another machine."""
    seen = directory / "seen"
    assert not seen.exists(), seen.read_text()


@contextlib.contextmanager
def watched(directory: Path, **variables: str) -> Iterator[dict[str, str]]:
    """The environment of a developer, for commands that must connect to nothing beyond this machine."""
    yield environment_of_developer(directory, **variables)
    assert_nothing_left(directory)
