"""The pytest plugin: a server for the session, in memory unless a test asks for a disk, and what a test needs of it.

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
def orcas_durability(request: pytest.FixtureRequest) -> str:
    """`memory`, or the durability mode of a server that has its store on disk.

    To run a test with several: `@pytest.mark.parametrize("orcas_durability", ["memory", "sync"], indirect=True)`.
    """
    return str(getattr(request, "param", "memory"))


@pytest.fixture(scope="session")
def orcas_server(
    orcas_settings: dict[str, Any], orcas_durability: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """An `orcas.Server` for the whole session, in memory unless `orcas_durability` is parametrised.

    It has a master key unless the settings have one.
    """
    import shutil

    import orcas
    from orcas.testing import settings_for_tests

    if orcas_durability == "memory":
        with orcas.Server(**settings_for_tests(orcas_settings)) as server:
            yield server
        return
    place = tmp_path_factory.mktemp("orcas")
    settings = settings_for_tests(orcas_settings) | {"memory": False, "durability": orcas_durability}
    try:
        with orcas.Server(place, **settings) as server:
            yield server
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def _orcas_control(orcas_server: Server) -> Iterator[Control]:
    from orcas.testing import Control

    with Control(orcas_server) as control:
        yield control


@pytest.fixture
def orcas_control(_orcas_control: Control, orcas_durability: str) -> Iterator[Control]:
    """An `orcas.testing.Control` of the server in memory. After the test, the server is empty and has no faults."""
    if orcas_durability != "memory":
        pytest.fail("orcas_control needs a server in memory: leave orcas_durability at memory in this test.")
    yield _orcas_control
    _orcas_control.reset()


@pytest.fixture(scope="session")
def s3(orcas_server: Server) -> Any:
    """A boto3 client of the server."""
    client = orcas_server.client()
    yield client
    client.close()


@pytest.fixture
def orcas_versioning(request: pytest.FixtureRequest) -> str:
    """Whether `orcas_bucket` has versioning: `unversioned`, `enabled` or `suspended`.

    To run a test with several: `@pytest.mark.parametrize("orcas_versioning", ["unversioned", "enabled"], indirect=True)`.
    """
    return str(getattr(request, "param", "unversioned"))


@pytest.fixture
def orcas_bucket(s3: Any, orcas_versioning: str, orcas_durability: str, _orcas_control: Control) -> Iterator[str]:
    """The name of a new, empty bucket. It is deleted after the test with all that it has; one on disk, with its store."""
    import secrets

    name = f"test-{secrets.token_hex(8)}"
    s3.create_bucket(Bucket=name)
    if orcas_versioning != "unversioned":
        status = {"Status": orcas_versioning.capitalize()}
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=status)
    yield name
    if orcas_durability == "memory" and name in [entry["Name"] for entry in s3.list_buckets()["Buckets"]]:
        _orcas_control.drop_bucket(name)


@pytest.fixture
def aws_env(orcas_server: Server) -> Iterator[dict[str, str]]:
    """The environment variables by which AWS's SDKs in any language use the server, set during the test.

    Programs that the test starts get them too. Of region, keys and endpoint, no others are left.
    """
    with orcas_server.env() as variables:
        yield variables
