"""What the server refuses before a client has a catalog."""

from __future__ import annotations

import asyncio
from importlib.machinery import ModuleSpec

import pytest
from starlette.testclient import TestClient

import orcas.serving.app as serving
import orcas.serving.assembly as assembly
from orcas.errors import ConfigurationError, UnavailableError
from orcas.tables.credentials import Vending


def test_a_bucket_that_cannot_be_a_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "find_spec", lambda name: ModuleSpec(name, None))
    app = serving.create_app(memory=True, warehouse="192.168.0.1")
    with pytest.raises(ConfigurationError) as caught, TestClient(app, base_url="http://localhost"):
        pass
    assert str(caught.value).startswith("The bucket 192.168.0.1 of ORCAS_WAREHOUSE cannot be a warehouse (")


def test_keys_of_a_store_without_identities() -> None:
    vending = Vending(lambda: None, lambda: pytest.fail("nobody signs"), "us-east-1")
    with pytest.raises(UnavailableError) as caught:
        asyncio.run(vending.keys("lake", "n/t", "arn:aws:iam::1:user/a", writes=False))
    assert str(caught.value) == "The store is open for reading: serve it without --salvage."
