"""Iceberg's compatibility kit for REST catalogs, with Iceberg's own client in Java.

A test that fails and is not listed here, or that is listed and passes, is a failure.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest
from tests.clients.tables.lake import LAKE

import orcas

pytestmark = [pytest.mark.clients, pytest.mark.full, pytest.mark.timeout(1800)]

ROOT: Final = Path(__file__).parents[3]
JARS: Final = ROOT / "target" / "clients" / "iceberg"
TABLES: Final = "orcas.InWarehouse"
VIEWS: Final = "org.apache.iceberg.rest.RESTCompatibilityKitViewCatalogTests"
# The names of tests that fail, by the reason.
MISSED: Final = {
    "pyiceberg does not write tables of version 3": {"createTableTransaction", "testCreateTableWithDefaultColumnValue"},
    "a table keeps its place": {"testCompleteCreateOrReplaceTransactionReplace", "testCompleteReplaceTransaction"},
    "the place of a view is in the bucket of its warehouse, theirs in a local directory": {
        "completeCreateView", "createAndReplaceViewWithLocation", "createViewWithCustomMetadataLocation",
        "updateViewLocation",
    },
}  # fmt: skip


def test_the_compatibility_kit(server: orcas.Server, tmp_path: Path) -> None:
    if shutil.which("javac") is None or not any(JARS.glob("iceberg-open-api-*.jar")):
        pytest.skip("the kit is not below target/clients/iceberg: `.ci/run clients` fetches it if it can")
    classes = tmp_path / "classes"
    source = Path(__file__).parent / "kit" / "InWarehouse.java"
    subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", str(classes), str(source)], check=True)
    said = {
        "rck.local": "false", "rck.requires-namespace-create": "true", "rck.supports-serverside-retry": "true",
        "rck.supports-nested-namespaces": "true", "uri": f"{server.endpoint}/_orcas/iceberg", "warehouse": LAKE,
        "credential": f"{server.access_key}:{server.secret_key}", "scope": "catalog",
        "header.X-Iceberg-Access-Delegation": "vended-credentials", "org.slf4j.simpleLogger.defaultLogLevel": "error",
    }  # fmt: skip
    done = subprocess.run(
        [
            "java", *(f"-D{name}={value}" for name, value in said.items()), "-cp", f"{classes}:{JARS}/*",
            "org.junit.platform.console.ConsoleLauncher", "execute", f"--select-class={TABLES}",
            f"--select-class={VIEWS}", "--details=none", f"--reports-dir={tmp_path}",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    results = list(ET.parse(tmp_path / "TEST-junit-jupiter.xml").getroot().iter("testcase"))
    failed = {re.split(r"\W", case.get("name", ""))[0] for case in results if case.find("failure") is not None}
    failed |= {re.split(r"\W", case.get("name", ""))[0] for case in results if case.find("error") is not None}
    assert len(results) == 148, done.stdout + done.stderr
    assert failed == set().union(*MISSED.values()), done.stdout
