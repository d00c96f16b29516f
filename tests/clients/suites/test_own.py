"""The suites of clients themselves. docs/s3/clients.md lists which of their tests fail for a reason of their own.

A test that fails and is not listed there, or that is listed and passes, is a failure.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from tests.fixtures.clients import Command, executable, package, variables_of
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import Target, running

import orcas

pytestmark = [pytest.mark.clients, pytest.mark.full, pytest.mark.timeout(1800)]

ROOT: Final = Path(__file__).parents[3]
# Without those that measure how soon a transfer ends.
IN_TIME: Final = ("-k", "not exits_quickly")

# Runs every test, also after one that has failed, and ends with the names of those that have.
MINIO_PY: Final = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("suite", sys.argv[1])
suite = importlib.util.module_from_spec(spec)
spec.loader.exec_module(suite)
call, failed = suite._call_test, []
def kept(test, *arguments, **named):
    try:
        call(test, *arguments, **named)
    except suite.TestFailed:
        failed.append(test.__name__)
suite._call_test = kept
suite.main()
print(json.dumps(failed))
"""


@pytest.fixture(scope="module")
def open_target() -> Iterator[Target]:
    """A server with what these suites were written against: buckets that may be public, and encryption."""
    with running(None, public_access="open", master_key=MASTER_KEY) as target:
        yield target


def listed(client: str) -> set[str]:
    """The tests of a client that docs/s3/clients.md says to fail."""
    page = (ROOT / "docs" / "s3" / "clients.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| {re.escape(client)}[^|]*\| ([^|]*) \| [^|]+ \|$", page, re.MULTILINE)
    assert rows
    return set(re.findall(r"`(test\w+)`", " ".join(rows)))


def unpacked(name: str, directory: Path) -> Path:
    """The sources with this name, as `.ci/run clients` has fetched them."""
    archive = ROOT / "target" / "clients" / "suites" / f"{name}.tar.gz"
    if not archive.exists():
        pytest.skip(f"{archive.name} is not there: run .ci/run clients, or see the test")
    with tarfile.open(archive) as file:
        file.extractall(directory, filter="data")
    return directory / name


def source_of(name: str, directory: Path) -> Path:
    """The source distribution of the version that is installed."""
    package(name)
    return unpacked(f"{name}-{version(name)}", directory)


def mint(target: Target) -> dict[str, str]:
    """The variables of MinIO's suites."""
    server = target.server
    return {
        "SERVER_ENDPOINT": urlsplit(server.endpoint).netloc, "ACCESS_KEY": server.access_key,
        "SECRET_KEY": server.secret_key, "ENABLE_HTTPS": "0", "ENABLE_KMS": "0", "MINT_MODE": "full", "RUN_ON_FAIL": "1",
    }  # fmt: skip


def test_minio_py(open_target: Target, tmp_path: Path) -> None:
    suite = source_of("minio", tmp_path / "source") / "tests/functional/tests.py"
    command = Command((sys.executable, "-c", MINIO_PY), tmp_path, mint(open_target), seconds=600)
    done = command.run(str(suite))
    last = done.stdout.decode().splitlines()[-1]
    assert set(json.loads(last)) == listed("minio (Python)"), done.stdout.decode()[-20_000:]


def test_minio_go(open_target: Target, tmp_path: Path) -> None:
    suite = executable("orcas-minio-go-suite", "run .ci/run --full clients where Go is installed")
    done = Command((suite,), tmp_path, mint(open_target), seconds=1200).run()
    failures: dict[str, str] = {}
    names = set()
    for line in done.stdout.splitlines():
        if line.startswith(b"{"):
            result: dict[str, Any] = json.loads(line)
            name = result["name"].removeprefix("minio-go: ")
            names.add(name)
            if result["status"] == "FAIL":
                failures.setdefault(name, str(result.get("error")))
    # Those that sign with version 2, which is refused in headers.
    failed = {name for name, error in failures.items() if "authorization mechanism" not in error}
    assert len(names) > 80
    assert failed == listed("minio-go"), done.stdout.decode()[-20_000:]


def failed_of(source: Path, variables: dict[str, str], count: int, *words: str) -> set[str]:
    """The tests that fail, of at least `count`."""
    report = source / "report.xml"
    pytest_there = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}")
    done = Command(pytest_there, source, variables, seconds=900).run(*words)
    assert report.exists(), done.stdout.decode()[-20_000:] + done.stderr.decode()[-20_000:]
    cases = list(ET.parse(report).iter("testcase"))
    assert len(cases) >= count
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return {str(case.get("name")) for case in bad}


def test_s3transfer(open_target: Target, tmp_path: Path) -> None:
    source = source_of("s3transfer", tmp_path)
    assert failed_of(source, variables_of(open_target), 50, "tests/integration", *IN_TIME) == listed("s3transfer")


def test_boto3(open_target: Target, tmp_path: Path) -> None:
    """No package has these tests. In a clone of boto3:

    git archive --prefix=boto3-suite/ --output …/target/clients/suites/boto3-suite.tar.gz 1.43.78 tests
    """
    source = unpacked("boto3-suite", tmp_path)
    assert failed_of(source, variables_of(open_target), 25, "tests/integration/test_s3.py") == listed("boto3 suite")


def test_pyiceberg(tmp_path: Path) -> None:
    """Its tests of catalogs, with a REST catalog."""
    source = source_of("pyiceberg", tmp_path)
    with orcas.Server(memory=True, warehouse="lake") as server:
        said = {
            "TYPE": "rest", "URI": f"{server.endpoint}/_orcas/iceberg", "WAREHOUSE": "lake",
            "CREDENTIAL": f"{server.access_key}:{server.secret_key}",
        }  # fmt: skip
        variables = {f"PYICEBERG_CATALOG__ORCAS__{name}": value for name, value in said.items()}
        variables["PYICEBERG_TEST_CATALOG"] = "orcas"
        words = ("tests/integration/test_catalog.py", "-m", "integration", "-k", "rest_test_catalog", "-W", "ignore")
        assert failed_of(source, variables, 38, *words) == set()
