"""`orcas settings` on stores at work and at rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target
from tests.tools.conftest import BUCKET, fill

from orcas.tools.bucket_settings import NAMES

Serve = Callable[..., AbstractContextManager[Target]]

ALL = {
    "durability": "buffered",
    "chunk-size": "65536",
    "ref-level": "fast",
    "chunking": "content-defined",
    "keep-sha256": "true",
}


def test_settings_are_set_shown_and_cleared(serve: Serve, data: Path) -> None:
    options = [word for name, value in ALL.items() for word in (f"--{name}", value)]
    assert tuple(ALL) == NAMES
    with serve() as target:
        fill(target, range(1))
        none = {"bucket": BUCKET, "settings": {}}
        assert document("settings", "show", BUCKET, "--data", data) == none
        assert "no settings of its own" in command("settings", "show", BUCKET, "--data", data)
        assert document("settings", "set", BUCKET, *options, "--data", data) == {"bucket": BUCKET, "settings": ALL}
        headers = target.wire("HEAD", f"/{BUCKET}").headers
        assert {name: headers[f"x-amz-orcas-{name}"] for name in ALL} == ALL
        assert "content-defined" in command("settings", "show", BUCKET, "--data", data)
        # One wrong value, and nothing is changed.
        wrong = ("--chunking", "fixed", "--chunk-size", "1")
        assert "cannot be changed" in command("settings", "set", BUCKET, *wrong, "--data", data, code=1)
        assert document("settings", "show", BUCKET, "--data", data)["settings"] == ALL
    # And with the store at rest.
    left = {name: value for name, value in ALL.items() if name != "durability"}
    changed = document("settings", "set", BUCKET, "--durability", "default", "--data", data)
    assert changed["settings"] == left
    with serve():
        assert document("settings", "show", BUCKET, "--data", data)["settings"] == left
        assert document("settings", "clear", BUCKET, "--data", data) == none
        assert document("settings", "show", BUCKET, "--data", data) == none


def test_a_missing_bucket_is_not_created(serve: Serve, data: Path) -> None:
    with serve() as target:
        for words in (("show",), ("set", "--chunking", "fixed"), ("clear",)):
            verb, *options = words
            said = command("settings", verb, "missing", *options, "--data", data, code=1)
            assert said.strip() == "orcas: There is no bucket missing: name another one."
        assert target.wire("HEAD", "/missing").status == 404
