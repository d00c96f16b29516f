"""`Server`: Orcas as a child process, for tests, notebooks and scripts.

The child has its own session, so Ctrl-C does not reach it. Settings and keys go through pipes, never through argv. The
child ends with this process, however this process ends. Must not import the server itself, so that importing `orcas`
stays cheap for test suites.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from orcas.errors import ConfigurationError, UnavailableError, because
from orcas.settings.clients import S3_TABLES, is_local, isolated
from orcas.settings.config import Settings, child_environment, resolve

_TAIL_BYTES: Final = 4096
_KILL_SECONDS: Final = 10


class Server:
    """A running server. It is ready when the constructor returns.

    Inside a coroutine the constructor does not wait, so that it never blocks the event loop. `async with` waits for the
    server without blocking. Without `async with`, the first use of the server blocks until it is ready.

    Args:
        data: data directory of the store, created if it does not exist.
        memory: keep the store in memory instead; nothing is left behind.
        timeout: seconds to wait for the server to be ready.
        **settings: any other setting by name, such as `durability="buffered"`, `region="eu-central-1"` or
            `tls_self_signed=True`. `ORCAS_*` variables and `orcas.toml` are not read, so the same call starts the same
            server everywhere.

    Raises:
        ConfigurationError: a setting is wrong.
        UnavailableError: the server did not start; the message ends with the last lines of its log.
    """

    def __init__(
        self, data: str | Path | None = None, *, memory: bool = False, timeout: float = 60.0, **settings: object
    ) -> None:
        if (data is None) != memory:
            raise ConfigurationError("Server needs either data=DIRECTORY or memory=True: give one of them.")
        overrides: dict[str, object] = {"port": 0, "log_level": "warning", "log_format": "human"} | settings
        overrides |= {"memory": True} if memory else {"data": str(data)}
        # Also checked here, so that a wrong setting raises an exception from this call instead of ending the child.
        self._settings: Settings = resolve(overrides, ambient=False).settings
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._starting = threading.Lock()
        self._ready: dict[str, Any] | None = None
        self._failed: Exception | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _close
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "orcas.cli.server.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=child_environment(),
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise UnavailableError(f"The server cannot be started: {because(error)}.") from error
        try:
            self._send_order({"parent": os.getpid(), "settings": overrides})
            if not _in_coroutine():
                self._wait()
        except BaseException:
            self.kill()
            raise

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return str(self._wait()["url"])

    @property
    def region(self) -> str:
        """The region of the server, which clients sign for."""
        return self._settings.region

    @property
    def access_key(self) -> str:
        """The access key of the root identity."""
        return str(self._wait()["access_key"])

    @property
    def secret_key(self) -> str:
        """The secret key of the root identity."""
        return str(self._wait()["secret_key"])

    @property
    def ca(self) -> str | None:
        """The file of the CA that clients have to trust, with `tls_self_signed=True`; else None."""
        ca: str | None = self._wait()["ca"]
        return ca

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    def client(self, service: str = "s3", **options: Any) -> Any:
        """A boto3 client of this server. `options` go to `boto3.client` and may override the endpoint and the keys.

        The client signs with Signature Version 4, including presigned URLs, and uses no proxy for a server on loopback.
        A `config` in `options` takes precedence.

        Raises:
            ImportError: boto3 is not installed.
        """
        return _session().client(service, **self._boto3_options(service, options))

    def resource(self, service: str = "s3", **options: Any) -> Any:
        """A boto3 resource of this server. `options` work as in `client`.

        Raises:
            ImportError: boto3 is not installed.
        """
        return _session().resource(service, **self._boto3_options(service, options))

    @contextlib.contextmanager
    def env(self) -> Iterator[dict[str, str]]:
        """Point all AWS clients at this server for a `with` block, in this process and in children that it starts.

        Clients of every service, of which the server has S3, IAM and STS. No variable, profile or metadata service leads
        them elsewhere. Clients that were made before stay as they are.
        """
        with isolated(self.endpoint, self.access_key, self.secret_key, self.region, self.ca) as variables:
            yield variables

    def stop(self) -> None:
        """Let in-flight requests finish, stop the server, and wait until it has ended. Stopping twice is harmless."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self._settings.drain_timeout_sec + _KILL_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._close()

    def kill(self) -> None:
        """End the server like a crash: SIGKILL, nothing is flushed. The next store in memory removes this one."""
        self._process.kill()
        self._close()

    def __enter__(self) -> Self:
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio

        try:
            await asyncio.to_thread(self._wait)
        except asyncio.CancelledError:
            # The waiting thread then sees that the child has ended.
            self._process.kill()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        url = self._ready["url"] if self._ready is not None else "starting"
        code = self._process.poll()
        if code is None:
            return f"<orcas.Server {url} pid={self.pid}>"
        return f"<orcas.Server {_how(code)}>"

    def _boto3_options(self, service: str, options: dict[str, Any]) -> dict[str, Any]:
        from botocore.config import Config

        ours: dict[str, Any] = {
            "endpoint_url": self.endpoint + (S3_TABLES if service == "s3tables" else ""),
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "region_name": self.region,
        }
        if self.ca is not None:
            ours["verify"] = self.ca
        ours |= options
        # Variables may ask for the first two, which no endpoint of one's own can be combined with; the last one is a host
        # below that of the endpoint.
        wanted: dict[str, Any] = dict.fromkeys(
            ("use_fips_endpoint", "use_dualstack_endpoint", "inject_host_prefix"), False
        )
        if is_local(str(ours["endpoint_url"])):
            wanted["proxies"] = {}
        if service == "s3":
            # Without this, boto3 presigns URLs for us-east-1 with version 2.
            wanted["signature_version"] = "s3v4"
        config = Config(**wanted)
        given = options.get("config")
        ours["config"] = config if given is None else config.merge(given)
        return ours

    def _wait(self) -> dict[str, Any]:
        """Wait for the child and return what it reports. If it fails, every caller gets the same exception."""
        with self._starting:
            if self._failed is not None:
                raise self._failed
            if self._ready is None:
                try:
                    self._ready = self._await_ready()
                except Exception as error:
                    self._failed = error
                    self._process.kill()
                    self._close()
                    raise
            return self._ready

    def _send_order(self, order: dict[str, object]) -> None:
        stream = self._process.stdin
        assert stream is not None
        # If the child has already ended, _await_ready reports it with its last log lines.
        with contextlib.suppress(BrokenPipeError):
            stream.write(json.dumps(order).encode() + b"\n")
            stream.flush()

    def _await_ready(self) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        if stream.closed:
            raise UnavailableError("The server was stopped before it was ready: start another one.")
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, self._deadline - time.monotonic())):
                    raise UnavailableError(
                        f"The server was not ready within {self._timeout:g} s: give it a longer timeout.{self._tail()}"
                    )
                piece = os.read(stream.fileno(), 4096)
                if not piece:
                    code = self._process.wait()
                    kind = ConfigurationError if code == ConfigurationError.exit_code else UnavailableError
                    *log, last = self._tail().split("\n")
                    said = last.removeprefix("orcas: ") if last.startswith("orcas: ") else "start another one."
                    raise kind("\n".join([f"The server did not start ({_how(code)}): {said}", *log[1:]]))
                line += piece
        ready: dict[str, Any] = json.loads(line)
        return ready

    def _tail(self) -> str:
        """The last lines that the child wrote to stderr."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        text = self._errors.read().decode(errors="replace").strip()
        return f"\n{text}" if text else ""

    def _close(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _how(code: int) -> str:
    """How a process with this exit code has ended."""
    return "stopped" if code == 0 else f"killed by signal {-code}" if code < 0 else f"failed with exit code {code}"


def _in_coroutine() -> bool:
    """Whether this thread runs an event loop, which must not be blocked."""
    # Half of what `import orcas` would take, and in a program that runs a loop it is there.
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _session() -> Any:
    """A session of boto3 without the profiles of the user, one of which may be missing or ask for other endpoints."""
    try:
        import boto3.session
        import botocore.session
    except ImportError:
        raise ImportError("Server.client() and Server.resource() need boto3: `pip install boto3`.") from None
    none = (None, None, None, None)
    nothing = (None, None, os.devnull, None)
    core = botocore.session.Session({"profile": none, "config_file": nothing, "credentials_file": nothing})
    return boto3.session.Session(botocore_session=core)
