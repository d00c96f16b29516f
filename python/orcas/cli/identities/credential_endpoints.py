"""The endpoints by which containers and EC2 instances get temporary credentials on AWS, here on loopback alone."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from orcas.cli.output import say
from orcas.errors import OrcasError

_TTL_MAX: Final = 21_600
_TOKENS_MAX: Final = 1_000
_BODY_MAX: Final = 1_024


class Refreshed:
    """Credentials, which are replaced when half of their life is over."""

    def __init__(self, ask: Callable[[], dict[str, str]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._renew_at = 0.0

    def get(self) -> dict[str, str]:
        """The credentials of this moment."""
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._known = self._ask()
                ends = datetime.fromisoformat(self._known["Expiration"]).timestamp()
                self._renew_at = now + (ends - now) / 2
            return self._known


class Endpoints(ThreadingHTTPServer):
    """Serves both protocols on loopback. Whoever does not know a secret gets nothing, also on this machine."""

    daemon_threads = True

    def __init__(self, port: int, name: str, credentials: Refreshed) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.name = name
        self.credentials = credentials
        # That of containers, and the start of the path of the other one: EC2 knows no secret.
        self.secret = secrets.token_urlsafe(24)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._tokens: dict[str, float] = {}

    def variables(self) -> dict[str, str]:
        """By these, AWS's SDKs find the endpoints: the first one that they try is that of containers."""
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": self.secret,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.url}/{self.secret}/",
        }

    def issue(self, seconds: int) -> str:
        """A token for the endpoint of EC2."""
        now = time.monotonic()
        self._tokens = {token: ends for token, ends in self._tokens.items() if ends > now}
        if len(self._tokens) >= _TOKENS_MAX:
            self._tokens.clear()
        token = secrets.token_urlsafe(24)
        self._tokens[token] = now + seconds
        return token

    def knows(self, token: str) -> bool:
        """Whether it is one that has not expired."""
        return self._tokens.get(token, 0.0) > time.monotonic()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoints
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self) -> None:
        """Credentials, or the name of whose they are."""
        if not self._is_local():
            return
        if self.path == "/credentials":
            if not _same(self.headers.get("authorization", ""), self.server.secret):
                self._answer(401, "text/plain", "")
                return
            self._credentials({})
            return
        below = "/latest/meta-data/iam/security-credentials/"
        path = self._below_secret()
        if path is None:
            self._answer(404, "text/plain", "")
        elif not self.server.knows(self.headers.get("x-aws-ec2-metadata-token", "")):
            self._answer(401, "text/plain", "")
        elif path in (below, below[:-1]):
            self._answer(200, "text/plain", self.server.name)
        elif path == below + self.server.name:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._credentials({"Code": "Success", "LastUpdated": now, "Type": "AWS-HMAC"})
        else:
            self._answer(404, "text/plain", "")

    def do_PUT(self) -> None:
        """A token for the endpoint of EC2."""
        if not self._is_local():
            return
        seconds = self.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if self._below_secret() != "/latest/api/token":
            self._answer(404, "text/plain", "")
        elif "x-forwarded-for" in self.headers:
            self._answer(403, "text/plain", "")
        elif not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 6 and 1 <= int(seconds) <= _TTL_MAX):
            self._answer(400, "text/plain", "")
        else:
            self._answer(200, "text/plain", self.server.issue(int(seconds)), seconds)

    def _is_local(self) -> bool:
        """Whether no other name led here: a page in a browser could have any name mean loopback."""
        length = self.headers.get("content-length", "0")
        named = self.headers.get("host", "").rpartition(":")[0]
        if named not in ("127.0.0.1", "localhost") or not length.isdecimal() or int(length) > _BODY_MAX:
            self.close_connection = True
            self._answer(403, "text/plain", "")
            return False
        self.rfile.read(int(length))
        return True

    def _below_secret(self) -> str | None:
        _, secret, rest = (*self.path.split("/", 2), "", "")[:3]
        return f"/{rest.lstrip('/')}" if _same(secret, self.server.secret) else None

    def _credentials(self, more: dict[str, str]) -> None:
        try:
            known = self.server.credentials.get()
        except OrcasError as error:
            say(str(error), err=True)
            self._answer(502, "text/plain", "")
            return
        shown = {
            **more, "AccessKeyId": known["AccessKeyId"], "SecretAccessKey": known["SecretAccessKey"],
            "Token": known["SessionToken"], "Expiration": known["Expiration"],
        }  # fmt: skip
        self._answer(200, "application/json", json.dumps(shown))

    def _answer(self, status: int, kind: str, text: str, ttl: str | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("cache-control", "no-store")
        if ttl is not None:
            self.send_header("x-aws-ec2-metadata-token-ttl-seconds", ttl)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a path has a secret."""


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())
