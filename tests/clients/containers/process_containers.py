"""Containers that are processes: the entry point of the image of Orcas with a command and variables, and those of the image.

Each listens on loopback, on a free port that is the published one. What runs is in files of the directory FAKE_DOCKER.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
IMAGE = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
NAME = "orcas-s3:latest"
STATE = Path(os.environ["FAKE_DOCKER"])


class Container:
    """A process, or the order for one."""

    status = "running"

    def __init__(self, name: str, known: dict[str, Any]) -> None:
        self.id = self.short_id = self.name = name
        self.known = known

    def start(self) -> None:
        assert self.known["image"] == NAME
        variables: dict[str, str] = self.known["environment"]
        words = re.search(r'^ENTRYPOINT \["(\w+)"\]$', IMAGE, re.MULTILINE)
        assert words is not None
        given = dict(pair.split("=") for pair in re.findall(r"ORCAS_\w+=\S+", IMAGE)) | variables
        assert given["ORCAS_HOST"] == "0.0.0.0", "nobody could reach it"
        assert given.get("ORCAS_PORT", "9000") == self.known["port"], "another port is published"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ORCAS_"))}
        here = {"ORCAS_DATA": str(STATE / "data"), "ORCAS_HOST": "127.0.0.1", "ORCAS_PORT": "0"}
        here["ORCAS_SERVER_LINK"] = str(STATE / "server")
        log = STATE / f"{self.name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", words[1], *shlex.split(self.known["command"])],
                env={**kept, **given, **here}, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"orcas ready "), log.read_text()
        self.known |= {"pid": process.pid, "published": line.decode().rpartition(":")[2].strip()}
        (STATE / f"{self.name}.json").write_text(json.dumps(self.known))

    @property
    def ports(self) -> dict[str, Any]:
        return {f"{self.known['port']}/tcp": [{"HostPort": self.known["published"]}]}

    def reload(self) -> None:
        """Nothing changes behind its back."""

    def logs(self, **_: Any) -> bytes:
        return (STATE / f"{self.name}.log").read_bytes()

    def kill(self) -> None:
        (STATE / f"{self.name}.json").unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.known["pid"], signal.SIGTERM)

    stop = kill

    def remove(self, **_: Any) -> None:
        self.kill()


def running() -> list[Container]:
    return [Container(path.stem, json.loads(path.read_text())) for path in sorted(STATE.glob("*.json"))]
