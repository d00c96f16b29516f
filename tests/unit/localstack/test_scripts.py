"""Which init scripts there are: links may lead to others of their directory, and to nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from orcas.localstack.scripts import InitScripts


def script(path: Path, note: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0" >> {note}\n')
    path.chmod(0o755)
    return path


def test_scripts_of_a_config_map_run_once(tmp_path: Path) -> None:
    ready, note = tmp_path / "init" / "ready.d", tmp_path / "note"
    script(ready / "..2026_11_30" / "a.sh", note)
    (ready / "..data").symlink_to("..2026_11_30")
    (ready / "a.sh").symlink_to("..data/a.sh")
    scripts = InitScripts(tmp_path / "init")
    scripts.run("READY", {})
    assert note.read_text() == f"{ready / 'a.sh'}\n"
    assert [each["state"] for each in scripts.shown("READY")["scripts"]] == ["SUCCESSFUL"]


def test_a_link_that_leads_out_of_the_directory_does_not_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ready, note = tmp_path / "init" / "ready.d", tmp_path / "note"
    script(ready / "a.sh", note)
    for name, place in (("b.sh", tmp_path / "b.sh"), ("c.sh", tmp_path / "init" / "boot.d" / "c.sh")):
        (ready / name).symlink_to(script(place, note))
    scripts = InitScripts(tmp_path / "init")
    scripts.run("READY", {})
    assert note.read_text() == f"{ready / 'a.sh'}\n"
    assert [each["name"] for each in scripts.shown("READY")["scripts"]] == ["a.sh"]
    assert "c.sh leads out of its directory, and is left out" in caplog.text
