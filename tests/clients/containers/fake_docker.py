"""A Docker without containers, for testcontainers and pytest-databases: a pytest plugin of the tests in examples/.

A container is a process (`process_containers`). Processes of pytest-xdist share the directory FAKE_DOCKER.
"""

from __future__ import annotations

import secrets
from typing import Any

import pytest_databases._service
import pytest_databases.docker
import testcontainers.community
import testcontainers.core.container
from process_containers import NAME, ROOT, Container, running
from testcontainers.core.config import ConnectionMode, testcontainers_config


class Client:
    """What the two projects use of docker's client. It is its own `images` and `containers`."""

    def __init__(self, **_: Any) -> None:
        self.client = self.images = self.containers = self

    def close(self) -> None:
        """There is nothing to close."""

    # pytest-databases

    def get(self, image: str) -> None:
        assert image == NAME

    def list(self, *, filters: dict[str, str], **_: Any) -> list[Container]:
        found = running()
        return [entry for entry in found if filters["name"] in entry.name] if "name" in filters else found

    def run(
        self, image: str, command: str, *, name: str, environment: dict[str, str], ports: dict[int, None], **_: Any
    ) -> Container:
        (port,) = ports
        known = {"image": image, "command": command, "environment": environment, "port": str(port)}
        container = Container(name, known)
        container.start()
        return container

    # testcontainers

    def create(
        self, image: str, *, command: str, environment: dict[str, str], ports: dict[str, None], **_: Any
    ) -> Container:
        (port,) = ports
        known = {"image": image, "command": command, "environment": environment, "port": port}
        return Container(secrets.token_hex(8), known)

    def start(self, container: Container) -> None:
        container.start()

    def get_connection_mode(self) -> ConnectionMode:
        return ConnectionMode.docker_host

    def host(self) -> str:
        return "127.0.0.1"

    def port(self, container: str, port: int) -> str:
        (found,) = [entry for entry in running() if entry.id == container]
        assert str(port) == found.known["port"]
        return str(found.known["published"])


testcontainers_config.ryuk_disabled = True
setattr(testcontainers.core.container, "DockerClient", Client)  # noqa: B010 - it is a class for type checkers
pytest_databases._service.get_docker_client = Client
EXAMPLES = ROOT / "examples"
testcontainers.community.__path__.append(str(EXAMPLES / "testcontainers/src/testcontainers/community"))
pytest_databases.docker.__path__.append(str(EXAMPLES / "pytest_databases/src/pytest_databases/docker"))
