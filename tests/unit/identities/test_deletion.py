"""What deletes a managed policy, from what a list of its versions says as JSON or as texts of XML."""

from __future__ import annotations

from typing import Any

import pytest

from orcas.iam.removal import deletion_of


@pytest.mark.parametrize("said", [{True: True, False: False}, {True: "true", False: "false"}])
def test_all_versions_but_the_default_go_before_the_policy(said: dict[bool, Any]) -> None:
    versions = [{"VersionId": f"v{number}", "IsDefaultVersion": said[number == 2]} for number in (3, 2, 1)]
    assert deletion_of("a", versions) == [
        ("DeletePolicyVersion", {"PolicyArn": "a", "VersionId": "v3"}),
        ("DeletePolicyVersion", {"PolicyArn": "a", "VersionId": "v1"}),
        ("DeletePolicy", {"PolicyArn": "a"}),
    ]
