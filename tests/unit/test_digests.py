"""Digests of the extension, compared with those of the standard library."""

from __future__ import annotations

import hashlib

import pytest

from orcas import _core


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 70_001])
def test_md5(length: int) -> None:
    content = bytes(number * number % 251 for number in range(length))
    assert _core.md5(content) == hashlib.md5(content, usedforsecurity=False).digest()
