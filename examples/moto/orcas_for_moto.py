"""A pytest plugin that puts Orcas in the place of moto, for suites that test S3 alone: `pytest -p orcas_for_moto`.

`mock_aws` empties a server in memory and leads clients to it while it lasts, whenever they were made and whatever keys they
have. `ThreadedMotoServer` is a server at the address that it is given, and `/moto-api/reset` empties it. Everything else of
moto is missing, and moto need not be installed. The directory of this file must be in PYTHONPATH, and Orcas beside the
packages of the suite. Clients of other services get an error from the server. Without a mock, clients reach nobody. The
clock of a server follows that of the tests, whose time may be frozen.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import datetime as dt
import functools
import inspect
import os
import sys
import time
import types
import unittest
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orcas
from orcas.settings.clients import is_local, isolated
from orcas.testing import Control, settings_for_tests

# Where nobody listens, and where clients are led to without a mock, unless the environment leads them to a server.
NOWHERE = "http://127.0.0.1:9"
if "AWS_ENDPOINT_URL" not in os.environ:
    _isolation = isolated(NOWHERE, "nobody", "nobody-anywhere", "us-east-1")
    _isolation.__enter__()
    atexit.register(_isolation.__exit__, None, None, None)
    # Without these, `ThreadedMotoServer` has keys of its own.
    del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]

# Buckets of moto can be public, and have ACLs. Its suites may freeze time.
SETTINGS: dict[str, object] = {"public_access": "open", "any_date": True}


def elapsed() -> float:
    """The time of the tests, less that of a clock which nothing freezes, in seconds. Changes if they freeze theirs."""
    return dt.datetime.now(dt.UTC).timestamp() - time.clock_gettime(time.CLOCK_MONOTONIC)


REAL = elapsed()


class Running:
    """A server, which clients of botocore find by its port."""

    by_port: dict[int, Running] = {}  # noqa: RUF012

    def __init__(self, **settings: object) -> None:
        self.server = orcas.Server(**settings_for_tests(SETTINGS | settings))
        self.control = Control(self.server)
        self._elapsed = REAL
        address = urlsplit(self.server.endpoint)
        self.address = str(address.hostname), int(address.port or 0)
        self.by_port[self.address[1]] = self

    def reset(self) -> None:
        self.control.reset()
        self._elapsed = REAL

    def follow(self) -> None:
        """Let its clock show the time of the tests."""
        if abs(elapsed() - self._elapsed) >= 1:
            self._elapsed = elapsed()
            self.control.set_clock(dt.datetime.now(dt.UTC), lifecycle=False)

    def stop(self) -> None:
        del self.by_port[self.address[1]]
        self.control.close()
        self.server.stop()


def lead(builtins: dict[str, Any], **_: Any) -> None:
    """Have a client send to the server of the mock, unless it names an address that is not of AWS."""
    named = urlsplit(builtins.get("SDK::Endpoint") or NOWHERE)
    if named.geturl() == NOWHERE or str(named.hostname).endswith((".amazonaws.com", ".amazonaws.com.cn")):
        url = mocked().server.endpoint if Mock.depth else os.environ.get("AWS_ENDPOINT_URL", NOWHERE)
        variants = dict.fromkeys(("AWS::UseFIPS", "AWS::UseDualStack", "AWS::S3::Accelerate"), False)
        builtins.update({"SDK::Endpoint": url, **variants})


def sign(request: Any, request_signer: Any, **_: Any) -> None:
    """Have a request to one of the servers signed with its keys, whatever keys the client has."""
    running = Running.by_port.get(urlsplit(request.url).port or 0)
    if running is not None and is_local(request.url):
        running.follow()
        # Those of asynchronous clients are of another class.
        found = copy.copy(request_signer._credentials) or Credentials("", "")
        found.access_key, found.secret_key, found.token = running.server.access_key, running.server.secret_key, None
        request.context.setdefault("signing", {})["request_credentials"] = found


with contextlib.suppress(ImportError):
    from botocore.credentials import Credentials
    from botocore.handlers import BUILTIN_HANDLERS

    BUILTIN_HANDLERS += [("before-endpoint-resolution", lead), ("before-sign", sign)]


class ThreadedMotoServer:
    """A server of its own. It takes the credentials in the environment; without any, it sets those of its own."""

    def __init__(self, ip_address: str = "127.0.0.1", port: int = 5000, verbose: bool = True) -> None:
        self._settings: dict[str, object] = {"host": ip_address, "port": port}

    def start(self) -> None:
        pair = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        if all(pair):
            self._settings |= {"root_access_key": pair[0], "root_secret_key": pair[1]}
        self._running = Running(**self._settings)
        os.environ["AWS_ACCESS_KEY_ID"] = self._running.server.access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = self._running.server.secret_key

    def get_host_and_port(self) -> tuple[str, int]:
        return self._running.address

    def stop(self) -> None:
        self._running.stop()


@functools.cache
def mocked() -> Running:
    """The server of all mocks, which ends with this process."""
    return Running()


# What pytest calls before and after each test of a class.
BEFORE, AFTER = "setup_method", "teardown_method"


class Mock(contextlib.ContextDecorator):
    """A context manager and a decorator, also of the classes of unittest."""

    depth = 0

    def __init__(self, *, empties: bool = True) -> None:
        self._empties = empties

    def __enter__(self) -> Mock:
        running = mocked()
        if Mock.depth == 0 and self._empties:
            running.reset()
        Mock.depth += 1
        self._environment = running.server.env()
        self._environment.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        Mock.depth -= 1
        self._environment.__exit__(None, None, None)

    def start(self) -> None:
        self.__enter__()

    def stop(self) -> None:
        self.__exit__()

    def __call__(self, target: Any) -> Any:
        if not isinstance(target, type):
            return super().__call__(target)
        if issubclass(target, unittest.TestCase):
            target.run = Mock()(target.run)  # type: ignore[method-assign]
            return target
        # What prepares a test and the test itself have one server, which whatever comes first empties.
        prepares = hasattr(target, BEFORE)
        for name, value in list(vars(target).items()):
            if isinstance(value, type) and name.startswith("Test"):
                setattr(target, name, Mock()(value))
            elif isinstance(value, types.FunctionType) and not (name.startswith("_") or is_fixture(value)):
                first = name == BEFORE or (not prepares and name.startswith("test"))
                called = with_method(value) if name in (BEFORE, AFTER) else value
                setattr(target, name, Mock(empties=first)(called))
        return target

    def _recreate_cm(self) -> Mock:
        return Mock(empties=self._empties)


def with_method(function: types.FunctionType) -> Callable[..., Any]:
    """The same for pytest, which passes the test to what is wrapped whether it is wanted or not."""
    wanted = function.__code__.co_argcount > 1 or bool(function.__code__.co_flags & inspect.CO_VARARGS)
    return functools.wraps(function)(lambda self, method: function(self, *([method] if wanted else [])))


def is_fixture(function: types.FunctionType) -> bool:
    """Whether pytest would not know it any more once it were wrapped."""
    return inspect.isgeneratorfunction(function) or hasattr(function, "_pytestfixturefunction")


def mock_aws(target: Callable[..., Any] | type | None = None, **_: Any) -> Any:
    return Mock() if target is None else Mock()(target)


def _module(name: str, **values: Any) -> None:
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(values, __path__=[])


# Before moto 5, each service had a mock of its own.
_module("moto", **dict.fromkeys(("mock_aws", "mock_s3", "mock_iam", "mock_sts"), mock_aws), __version__="5.0")
_module("moto.server", ThreadedMotoServer=ThreadedMotoServer)
_module("moto.moto_server")
_module("moto.moto_server.threaded_moto_server", ThreadedMotoServer=ThreadedMotoServer)

with contextlib.suppress(ImportError):
    import requests

    _post = requests.post

    def _reset(url: str, *arguments: Any, **options: Any) -> Any:
        parts = urlsplit(url)
        if parts.path.rstrip("/").endswith("/moto-api/reset") and parts.port in Running.by_port:
            Running.by_port[parts.port].reset()
            return None
        return _post(url, *arguments, **options)

    requests.post = _reset
