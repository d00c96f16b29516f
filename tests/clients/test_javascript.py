"""The AWS SDK for JavaScript, version 3: the tests in `javascript/`, run by Node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, Command, executable, variables_of
from tests.fixtures.targets import Target

FOLDER: Final = Path(__file__).parent / "javascript"
NODE = executable("node", "install Node.js 20 or later, with npm")
if not (FOLDER / "node_modules").is_dir():
    pytest.skip("the SDK is not installed: run npm ci in tests/clients/javascript", allow_module_level=True)

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]


def test_the_sdk(target: Target, listed: str) -> None:
    named = {
        "ORCAS_TEST_AWKWARD": json.dumps(AWKWARD), "ORCAS_TEST_LISTED": listed, "ORCAS_TEST_MANY": str(MANY),
        "ORCAS_TEST_WRONG_SECRET": WRONG_SECRET,
    }  # fmt: skip
    done = Command((NODE, "--test"), FOLDER, variables_of(target) | named).run("sdk.test.js")
    assert done.returncode == 0, done.stdout.decode()[-6000:] + done.stderr.decode()[-2000:]
    assert b"# pass 0" not in done.stdout
