"""What `orcas cluster verify` says of nodes, by their answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orcas.errors import OrcasError, UnavailableError
from orcas.tools import nodes as tools
from orcas.tools.nodes import compare

OWNER = {"node": "a", "url": "http://a", "role": "owner", "owner": {"node": "a", "url": "http://a"}}
FOLLOWER = {"node": "b", "url": "http://b", "role": "follower", "owner": {"node": "a", "url": "http://a"}}
CLEAN = {"clean": True, "groups": [], "position": "00"}


def session(shown: dict[str, Any], files: dict[str, Any], checked: dict[str, Any] | Exception = CLEAN) -> Any:
    def admin(method: str, path: str, _: object = None) -> dict[str, Any]:
        if path == "cluster":
            return shown
        if path.startswith("cluster/files"):
            return files
        if isinstance(checked, Exception):
            raise checked
        return {"id": "1", "state": "done", "progress": {}, "result": checked, "error": None}

    return SimpleNamespace(admin=admin)


@pytest.mark.parametrize(
    ("files", "checked", "finding"),
    [
        ({"small": {"root.json": "1"}}, CLEAN, None),
        ({"small": {"root.json": "2"}}, CLEAN, "root.json differ from those of the owner"),
        ({"small": {}}, CLEAN, "root.json differ from those of the owner"),
        ({"small": {"root.json": "1"}}, UnavailableError("It is gone."), "It is gone"),
    ],
)
def test_a_difference_is_said(
    files: dict[str, Any], checked: Any, finding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_TRY_SECONDS", 0.0)
    owner = session(OWNER, {"small": {"root.json": "1"}, "continues": True})
    found = compare([session(FOLLOWER, files, checked)], lambda _: owner, lambda _: None, read_content=True)
    assert [(each["node"], each["finding"]) for each in found] == [("b", finding), ("a", None)]
    assert found[0]["state"] == (
        "the same" if finding is None else "could not be told" if checked is not CLEAN else "differs"
    )


@pytest.mark.parametrize(
    ("continues", "finding"),
    [(False, "its log is not the beginning of that of the owner"), (None, "the owner has compacted its log meanwhile")],
)
def test_a_log_that_the_owner_does_not_continue_is_said(
    continues: bool | None, finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_TRY_SECONDS", 0.0)
    nodes = [session(OWNER, {"small": {}, "continues": continues}), session(FOLLOWER, {"small": {}})]
    found = compare(nodes, lambda _: nodes[0], lambda _: None, read_content=True)
    assert found[0]["finding"] is None
    assert found[1]["finding"].startswith(finding)


def test_without_an_owner_there_is_nothing_to_compare_with() -> None:
    alone = session({**FOLLOWER, "owner": None}, {})
    with pytest.raises(OrcasError, match="No node owns the log at present: wait until one has taken it"):
        compare([alone], lambda _: alone, lambda _: None, read_content=True)
