"""The examples of docs/tables.md and docs/tables/catalog.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.clients.tables.lake import LAKE, catalog_of
from tests.fixtures.clients import Command, package

import orcas
from orcas.settings.clients import client_environment

package("pyiceberg.catalog.rest")
package("pyarrow")

DOCUMENTS = Path(__file__).parents[3] / "docs"
pytestmark = [pytest.mark.clients]


def example(page: str) -> str:
    text = (DOCUMENTS / page).read_text(encoding="utf-8")
    [found] = re.findall(r"^```python\n(import.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(found)


def said(server: orcas.Server, tmp_path: Path, text: str) -> str:
    variables = client_environment(server.endpoint, server.access_key, server.secret_key, server.region)
    return Command((sys.executable, "-W", "ignore", "-c"), tmp_path, variables).text(text)


def test_pyiceberg(server: orcas.Server, tmp_path: Path) -> None:
    text = example("tables.md")
    assert f'warehouse="{LAKE}"' in text
    assert said(server, tmp_path, text) == "1 2\n"


@pytest.mark.filterwarnings("ignore")
def test_the_api_of_s3_tables(server: orcas.Server, tmp_path: Path) -> None:
    assert said(server, tmp_path, example("tables/catalog.md")) == ""
    made = catalog_of(server, warehouse="measured").load_table("weather.days")
    assert [field.name for field in made.schema().fields] == ["city", "celsius"]
