"""A pytest plugin that puts Orcas in the place of moto, for suites that test S3 alone: `pytest -p orcas_for_moto`.

`mock_aws` empties a server in memory and points clients at it that are made while it lasts. `ThreadedMotoServer` is a
server at the address that it is given, and `/moto-api/reset` empties it. Everything else of moto is missing, and moto need
not be installed. The directory of this file must be in PYTHONPATH, and Orcas beside the packages of the suite. Clients of
other services get an error from the server; those that are made outside of a mock reach nobody. Nothing goes to AWS.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orcas
from orcas.settings.clients import isolated
from orcas.testing import Control, settings_for_tests

# Clients that are made outside of a mock reach nobody, unless the environment leads them to a server.
if "AWS_ENDPOINT_URL" not in os.environ:
    _isolation = isolated("http://127.0.0.1:9", "nobody", "nobody-anywhere", "us-east-1")
    _isolation.__enter__()
    # Without these, `ThreadedMotoServer` has keys of its own.
    del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]

# Buckets of moto can be public, and have ACLs. Its suites may freeze time.
SETTINGS = {"public_access": "open", "any_date": True}


def forget_credentials() -> None:
    """Take the session of boto3 away, which keeps the credentials of its first client, if they are others."""
    boto3 = sys.modules.get("boto3")
    if boto3 is not None and boto3.DEFAULT_SESSION is not None:
        known = boto3.DEFAULT_SESSION.get_credentials()
        if known is None or known.access_key != os.environ["AWS_ACCESS_KEY_ID"]:
            boto3.DEFAULT_SESSION = None


class ThreadedMotoServer:
    """A server of its own. It takes the credentials in the environment; without any, it sets those of its own."""

    running: dict[int, Control] = {}  # noqa: RUF012

    def __init__(self, ip_address: str = "127.0.0.1", port: int = 5000, verbose: bool = True) -> None:
        self._settings: dict[str, object] = {**SETTINGS, "host": ip_address, "port": port}

    def start(self) -> None:
        pair = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        if all(pair):
            self._settings |= {"root_access_key": pair[0], "root_secret_key": pair[1]}
        self.server = orcas.Server(**settings_for_tests(self._settings))
        os.environ["AWS_ACCESS_KEY_ID"] = self.server.access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = self.server.secret_key
        forget_credentials()
        self.running[self.get_host_and_port()[1]] = Control(self.server)

    def get_host_and_port(self) -> tuple[str, int]:
        found = urlsplit(self.server.endpoint)
        return str(found.hostname), int(found.port or 0)

    def stop(self) -> None:
        self.running.pop(self.get_host_and_port()[1]).close()
        self.server.stop()


@functools.cache
def mocked() -> tuple[orcas.Server, Control]:
    """The server of all mocks, which ends with this process."""
    server = orcas.Server(**settings_for_tests(SETTINGS))
    return server, Control(server)


# What pytest calls before and after each test of a class.
BEFORE, AFTER = "setup_method", "teardown_method"


class Mock(contextlib.ContextDecorator):
    """A context manager and a decorator, also of the classes of unittest."""

    depth = 0

    def __init__(self, *, empties: bool = True) -> None:
        self._empties = empties

    def __enter__(self) -> Mock:
        server, control = mocked()
        if Mock.depth == 0 and self._empties:
            control.reset()
        Mock.depth += 1
        self._environment = server.env()
        self._environment.__enter__()
        forget_credentials()
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


_module("moto", mock_aws=mock_aws, __version__="5.0")
_module("moto.server", ThreadedMotoServer=ThreadedMotoServer)
_module("moto.moto_server")
_module("moto.moto_server.threaded_moto_server", ThreadedMotoServer=ThreadedMotoServer)

with contextlib.suppress(ImportError):
    import requests

    _post = requests.post

    def _reset(url: str, *arguments: Any, **options: Any) -> Any:
        parts = urlsplit(url)
        if parts.path.rstrip("/").endswith("/moto-api/reset") and parts.port in ThreadedMotoServer.running:
            ThreadedMotoServer.running[parts.port].reset()
            return None
        return _post(url, *arguments, **options)

    requests.post = _reset
