"""Without pyiceberg, the server is as it was, and says what is missing."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

import orcas.serving.app as serving
import orcas.serving.assembly as assembly
from orcas.errors import ConfigurationError

SENTENCE = "The catalog of tables needs the package pyiceberg: pip install 'orcas-s3[tables]'."


@pytest.fixture
def _no_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (serving, assembly):
        monkeypatch.setattr(module, "find_spec", lambda _: None)


@pytest.mark.usefixtures("_no_pyiceberg")
def test_a_request() -> None:
    with TestClient(serving.create_app(memory=True), base_url="http://localhost") as client:
        answer = client.get("/_orcas/iceberg/v1/config")
        other = client.get("/_orcas/s3tables/buckets")
    assert (answer.status_code, answer.json()["error"]["message"]) == (501, SENTENCE)
    assert (other.status_code, other.headers["x-amzn-errortype"]) == (501, "NotImplementedException")
    assert other.json()["message"] == SENTENCE


@pytest.mark.usefixtures("_no_pyiceberg")
def test_a_start() -> None:
    with (
        pytest.raises(ConfigurationError) as caught,
        TestClient(serving.create_app(memory=True, warehouse="lake"), base_url="http://localhost"),
    ):
        pass
    assert str(caught.value) == SENTENCE
