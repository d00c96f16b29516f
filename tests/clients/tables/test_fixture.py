"""The fixture `orcas_catalog`, in a session of pytest as users have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.clients import package

package("pyiceberg.catalog.rest")
package("pyarrow")

SUITE = """
import pyarrow as pa
import pytest

@pytest.mark.parametrize("number", range(2))
def test_a_catalog_is_new(orcas_catalog, s3, orcas_bucket, number):
    assert orcas_catalog.list_namespaces() == []
    orcas_catalog.create_namespace("n")
    rows = pa.table({"n": [number]})
    orcas_catalog.create_table("n.t", schema=rows.schema).append(rows)
    assert orcas_catalog.load_table("n.t").scan().to_arrow() == rows
"""

pytestmark = [pytest.mark.clients]


def test_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
