"""The pytest plugin: a server in memory for the session, and what a test needs of it.

pytest loads it when Orcas is installed; without a fixture, nothing but `import orcas` is done. Each process of pytest-xdist
has a server of its own, which ends with the process, however that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from orcas.server import Server
    from orcas.testing import Control


@pytest.fixture(scope="session")
def orcas_settings() -> dict[str, Any]:
    """The settings of `orcas_server`. Override it to change them: `return {"region": "eu-central-1"}`."""
    return {}


@pytest.fixture(scope="session")
def orcas_server(orcas_settings: dict[str, Any]) -> Iterator[Server]:
    """An `orcas.Server` in memory, for the whole session, with a master key unless the settings have one."""
    import orcas
    from orcas.testing import settings_for_tests

    with orcas.Server(**settings_for_tests(orcas_settings)) as server:
        yield server


@pytest.fixture(scope="session")
def _orcas_control(orcas_server: Server) -> Iterator[Control]:
    from orcas.testing import Control

    with Control(orcas_server) as control:
        yield control


@pytest.fixture
def orcas_control(_orcas_control: Control) -> Iterator[Control]:
    """An `orcas.testing.Control` of the server. After the test, the server is empty and has no faults."""
    yield _orcas_control
    _orcas_control.reset()


@pytest.fixture(scope="session")
def s3(orcas_server: Server) -> Any:
    """A boto3 client of the server."""
    client = orcas_server.client()
    yield client
    client.close()


@pytest.fixture(params=["unversioned"])
def orcas_versioning(request: pytest.FixtureRequest) -> str:
    """Whether `orcas_bucket` has versioning: `unversioned`, `enabled` or `suspended`.

    To run a test with several: `@pytest.mark.parametrize("orcas_versioning", ["unversioned", "enabled"], indirect=True)`.
    """
    return str(request.param)


@pytest.fixture
def orcas_bucket(s3: Any, orcas_versioning: str, _orcas_control: Control) -> Iterator[str]:
    """The name of a new, empty bucket. It is deleted after the test with all that it has."""
    import secrets

    name = f"test-{secrets.token_hex(8)}"
    s3.create_bucket(Bucket=name)
    if orcas_versioning != "unversioned":
        status = {"Status": orcas_versioning.capitalize()}
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=status)
    yield name
    if name in [entry["Name"] for entry in s3.list_buckets()["Buckets"]]:
        _orcas_control.drop_bucket(name)


@pytest.fixture
def aws_env(orcas_server: Server) -> Iterator[dict[str, str]]:
    """The environment variables by which AWS's SDKs in any language use the server, set during the test.

    Programs that the test starts get them too. Of region, keys and endpoint, no others are left.
    """
    with orcas_server.env() as variables:
        yield variables
