"""What tests of the image share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.servers.image import Container, new_container


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return new_container(tmp_path)
