"""The pytest plugin: a server for the session, in memory unless a test asks for a disk, and what a test needs of it.

pytest loads it when Orcas is installed; without a fixture, nothing but `import orcas` is done. Each process of pytest-xdist
has a server of its own, which ends with the process, however that ends. A test that uses a fixture reaches nothing of AWS:
its environment names the server, and what would go elsewhere all the same is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

from orcas.errors import OrcasError

if TYPE_CHECKING:
    from collections.abc import Generator

    from orcas.server import Server
    from orcas.testing import Control


_OPTION: Final = "orcas_aws"
_FIXTURES, _ALWAYS, _NEVER = "fixtures", "always", "never"
# Where nobody listens.
_NOWHERE: Final = "http://127.0.0.1:9"
_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws", ".api.amazonwebservices.com.cn")
# Some clients put an account before the address of an endpoint, and such a name would be looked for in the network.
_NOT_HERE: Final = (*_AWS, ".127.0.0.1")
_METADATA: Final = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
# Of an item: what ends with it, and the faults that end before its fixtures do.
_HELD: Final = pytest.StashKey[contextlib.ExitStack]()
_CONTROL: Final = pytest.StashKey["Control"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of the configuration."""
    said = f"tests whose AWS clients use Orcas: {_FIXTURES} (those with a fixture of it), {_ALWAYS}, {_NEVER}"
    parser.addini(_OPTION, said)


def pytest_configure(config: pytest.Config) -> None:
    """Check the option. With `always`, clients that are made while tests are imported reach nobody."""
    chosen = _chosen(config)
    if chosen not in (_FIXTURES, _ALWAYS, _NEVER):
        raise pytest.UsageError(f"{_OPTION} = {chosen}: write {_FIXTURES}, {_ALWAYS} or {_NEVER}.")
    if chosen == _ALWAYS:
        from orcas.settings.clients import isolated

        held = contextlib.ExitStack()
        held.enter_context(isolated(_NOWHERE, "nobody", "nobody-anywhere", "us-east-1"))
        config.add_cleanup(held.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the environment before all fixtures of a test, and the state to come back before those of the test alone."""
    chosen = _chosen(config)
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is None:
            continue
        if orcas_control.__name__ in names and _orcas_state.__name__ not in names:
            names.insert(_longer_lived(item, names), _orcas_state.__name__)
        if chosen != _NEVER and _aws_at_orcas.__name__ not in names and (chosen == _ALWAYS or _uses_orcas(item, names)):
            names.insert(0, _aws_at_orcas.__name__)


def _chosen(config: pytest.Config) -> str:
    return str(config.getini(_OPTION)) or _FIXTURES


def _definitions(item: pytest.Item) -> dict[str, Sequence[Any]]:
    """Definitions of the fixtures of a test, by name; the last one counts."""
    found: dict[str, Sequence[Any]] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return found


def _longer_lived(item: pytest.Item, names: list[str]) -> int:
    """How many of the fixtures of a test, which stand first, may last longer than the test."""
    known = _definitions(item)
    return sum(name in known and known[name][-1].scope != "function" for name in names)


def _uses_orcas(item: pytest.Item, names: list[str]) -> bool:
    """Whether a fixture is of this module, and not one of the same name that has taken its place."""
    known = _definitions(item)
    for name in names:
        found = known.get(name, ())
        if any(each.func.__module__ == __name__ for each in found) and (
            found[-1].func.__module__ == __name__ or name in found[-1].argnames
        ):
            return True
    return False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """End what a test holds when its fixtures have ended, also those that last longer and end with it."""
    with contextlib.ExitStack() as held:
        item.stash[_HELD] = held
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Faults are for the test, not for what its fixtures do afterwards."""
    control = item.stash.get(_CONTROL, None)
    if control is not None:
        control.clear_faults()


@pytest.fixture
def _aws_at_orcas(request: pytest.FixtureRequest, orcas_server: Server) -> None:
    held = request.node.stash[_HELD]
    held.enter_context(orcas_server.env())
    held.enter_context(_nothing_to_aws())


@contextlib.contextmanager
def _nothing_to_aws() -> Iterator[None]:
    """Refuse requests of clients that were made before the environment was set, or that name an address of AWS."""
    try:
        from botocore.httpsession import URLLib3Session
    except ImportError:
        yield
        return
    former = URLLib3Session.send

    def send(session: Any, request: Any) -> Any:
        host = urlsplit(request.url).hostname or ""
        if host in _METADATA or host.endswith(_NOT_HERE):
            raise OrcasError(
                f"A request to {host} was not sent, because this test uses Orcas. Its client was made before the test, or "
                f"names that address: make it in the test, or set {_OPTION} = {_ALWAYS} or {_NEVER} for pytest."
            )
        return former(session, request)

    URLLib3Session.send = send
    try:
        yield
    finally:
        URLLib3Session.send = former


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
    if orcas_settings.get("any_date"):
        pytest.fail(
            "any_date needs a server in memory: leave it out of orcas_settings, or orcas_durability at memory in this test."
        )
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
def _orcas_state(_orcas_control: Control, orcas_durability: str) -> Iterator[None]:
    """What fixtures that last longer than the test have stored is there again after it."""
    if orcas_durability != "memory":
        pytest.fail("orcas_control needs a server in memory: leave orcas_durability at memory in this test.")
    state = _orcas_control.snapshot()
    yield
    _orcas_control.reset(to=state)
    _orcas_control.forget(state)


@pytest.fixture
def orcas_control(request: pytest.FixtureRequest, _orcas_control: Control, _orcas_state: None) -> Control:
    """An `orcas.testing.Control` of the server in memory.

    After the test, faults and record are gone, buckets and clock are as they were before it, and new buckets are deleted.
    """
    request.node.stash[_CONTROL] = _orcas_control
    return _orcas_control


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
def orcas_bucket(orcas_versioning: str, orcas_durability: str, _orcas_control: Control) -> Iterator[str]:
    """The name of a new, empty bucket. It is deleted after the test with all that it has; one on disk, with its store."""
    import secrets

    name = f"test-{secrets.token_hex(8)}"
    _orcas_control.create_bucket(name, orcas_versioning)
    yield name
    if orcas_durability == "memory" and name in _orcas_control.buckets():
        _orcas_control.drop_bucket(name)


@pytest.fixture
def orcas_catalog(orcas_server: Server, orcas_bucket: str) -> Iterator[Any]:
    """A pyiceberg catalog without namespaces, whose warehouse is `orcas_bucket`. It ends with it after the test."""
    from orcas.tables import MOUNT, NEEDED

    try:
        from pyiceberg.catalog.rest import RestCatalog
    except ImportError:
        pytest.fail(NEEDED)
    from orcas.tables.names import WAREHOUSE
    from orcas.tables.warehouses import marker

    client = orcas_server.client()
    client.put_object(Bucket=orcas_bucket, Key=WAREHOUSE, Body=marker(orcas_bucket))
    client.close()
    url = orcas_server.endpoint + MOUNT
    said = {
        "uri": url, "warehouse": orcas_bucket, "oauth2-server-uri": f"{url}/v1/oauth/tokens",
        "credential": f"{orcas_server.access_key}:{orcas_server.secret_key}",
    }  # fmt: skip
    catalog = RestCatalog("orcas", **said)
    yield catalog
    catalog.close()


@pytest.fixture
def aws_env(orcas_server: Server) -> Iterator[dict[str, str]]:
    """The environment variables by which AWS's SDKs in any language use the server.

    They are set during every test with a fixture of Orcas, unless `orcas_aws` is `never`, and in any case during this one.
    Programs that the test starts get them too.
    """
    with orcas_server.env() as variables:
        yield variables
