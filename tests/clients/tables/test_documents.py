"""The example of docs/tables.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.clients.tables.lake import LAKE
from tests.fixtures.clients import Command, package

import orcas

package("pyiceberg.catalog.rest")
package("pyarrow")

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"
pytestmark = [pytest.mark.clients]


def test_the_example(server: orcas.Server, tmp_path: Path) -> None:
    [text] = re.findall(r"^```python\n(import.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    variables = {
        "AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
    }  # fmt: skip
    assert f'warehouse="{LAKE}"' in text
    assert Command((sys.executable, "-W", "ignore", "-c"), tmp_path, variables).text(text) == "1 2\n"
