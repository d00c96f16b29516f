"""A daemon of Docker without containers, for testcontainers in other languages: what their modules ask of its API.

A container is a process (`process_containers`). Prints the address, and ends when its input does. Needs the standard library
alone.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from process_containers import NAME, Container, running

VERSION = "1.44"
ABOUT = {
    "ApiVersion": VERSION, "MinAPIVersion": "1.24", "Version": "25.0.0", "ServerVersion": "25.0.0", "Os": "linux",
    "Arch": "amd64", "OSType": "linux", "OperatingSystem": "none", "Architecture": "x86_64", "MemTotal": 1 << 33,
    "NCPU": 2, "Driver": "none", "DriverStatus": [], "Labels": [], "ID": "none",
}  # fmt: skip
CREATION = "2026-01-01T00:00:00Z"
NETWORK = {"Name": "bridge", "Id": "bridge", "Driver": "bridge", "IPAM": {"Config": [{"Gateway": "127.0.0.1"}]}}
# What was created, by its id.
CREATED: dict[str, Container] = {}


def create(order: dict[str, Any]) -> dict[str, Any]:
    (port,) = {name.partition("/")[0] for name in order["ExposedPorts"]}
    environment = dict(pair.split("=", 1) for pair in order.get("Env") or [])
    known = {"image": order["Image"], "command": shlex.join(order["Cmd"]), "environment": environment, "port": port}
    container = Container(secrets.token_hex(32), known | {"labels": order.get("Labels") or {}})
    CREATED[container.id] = container
    return {"Id": container.id, "Warnings": []}


def inspected(container: Container) -> dict[str, Any]:
    known = container.known
    is_running = any(each.id == container.id for each in running())
    ports = {name: [{"HostIp": "0.0.0.0", **bound[0]}] for name, bound in container.ports.items()} if is_running else {}
    state = {
        "Status": "running" if is_running else "created", "Running": is_running, "StartedAt": CREATION,
        "FinishedAt": "0001-01-01T00:00:00Z", "Pid": 1, "ExitCode": 0, "OOMKilled": False, "Dead": False,
        "Paused": False, "Restarting": False, "Error": "",
    }  # fmt: skip
    network = {"IPAddress": "127.0.0.1", "Gateway": "127.0.0.1", "NetworkID": "bridge", "Aliases": []}
    return {
        "Id": container.id, "Name": f"/{container.id}", "Created": CREATION, "State": state, "Image": NAME,
        "Config": {
            "Labels": known["labels"], "Hostname": "here", "Image": NAME, "Env": [],
            "ExposedPorts": {f"{known['port']}/tcp": {}},
        },
        "HostConfig": {"NetworkMode": "bridge", "PortBindings": {}}, "Mounts": [],
        "NetworkSettings": {"Ports": ports, "Networks": {"bridge": network}, "IPAddress": "127.0.0.1"},
    }  # fmt: skip


class Daemon(BaseHTTPRequestHandler):
    """One request. Paths begin with a version of the API, or do not."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Answer any request."""
        path = re.sub(r"^/v[0-9.]+/", "/", unquote(urlsplit(self.path).path))
        given = self.rfile.read(int(self.headers.get("content-length") or 0))
        kind, _, rest = path.strip("/").partition("/")
        name, _, what = rest.rpartition("/") if kind == "containers" and "/" in rest else (rest, "", "")
        container = CREATED.get(name)
        if kind == "_ping":
            self.send(200, b"OK")
        elif kind in ("version", "info"):
            self.send(200, ABOUT)
        elif path == f"/images/{NAME}/json":
            self.send(200, {"Id": "sha256:0", "RepoTags": [NAME], "Created": CREATION, "Config": {}, "Os": "linux"})
        elif path in ("/images/json", "/containers/json"):
            self.send(200, [])
        elif rest == "prune":
            self.send(200, {"SpaceReclaimed": 0})
        elif kind == "networks":
            self.send(200, NETWORK if rest else [NETWORK])
        elif path == "/containers/create":
            self.send(201, create(json.loads(given)))
        elif container is None:
            self.send(404, {"message": f"There is no {path}."})
        else:
            self.of_container(container, what)

    do_GET = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - the names of methods

    def of_container(self, container: Container, what: str) -> None:
        if what == "json":
            self.send(200, inspected(container))
        elif what == "logs":
            text = container.logs()
            self.send(200, struct.pack(">BxxxL", 2, len(text)) + text)
        else:
            if what == "start":
                container.start()
            elif what in ("stop", "kill", ""):
                container.kill()
            self.send(204, b"")

    def send(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (("Api-Version", VERSION), ("Ostype", "linux"), ("Content-Type", "application/json")):
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - the name of the class above
        sys.stderr.write(f"{format % words}\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"tcp://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()
