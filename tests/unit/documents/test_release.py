"""`.ci/release`: what stands against a release, which tag to push, and what agrees with the workflow that publishes."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[3]
WORKFLOW: Final[dict[str, Any]] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
VERSION: Final = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
QUOTED: Final = re.escape(f'"{VERSION}"')
VERSIONED: Final = ("Cargo.toml", "Cargo.lock", "deploy/Containerfile", "deploy/helm/orcas/Chart.yaml")


class Checkout:
    """A repository with the files that a release looks at, in which nothing is unreleased."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in (*VERSIONED, ".ci/release"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} (2026-12-01)\n\nWhat is new.\n")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "tag.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("-c", "commit.gpgsign=false", "commit", "--quiet", "--allow-empty", "--message", "A commit")

    def release(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(self.root / ".ci" / "release"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def test_the_tag_to_push_is_said(checkout: Checkout) -> None:
    done = checkout.release(VERSION)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].endswith(
        f"can be released: git tag -s v{VERSION} && git push origin v{VERSION}"
    )
    # The workflow runs for the tag, also for one with a message.
    checkout.git("tag", "--annotate", "--message", "A release", f"v{VERSION}")
    assert checkout.release(VERSION).returncode == 0


@pytest.mark.parametrize(
    ("name", "pattern", "new", "said"),
    [
        ("deploy/Containerfile", f"version={QUOTED}", 'version="9.9.9"', "Containerfile has the version 9.9.9, not"),
        (
            "deploy/helm/orcas/Chart.yaml",
            r"(?m)^appVersion: .*$",
            "appVersion: 9.9.9",
            f"version {VERSION}, 9.9.9, not",
        ),
        ("Cargo.toml", f"(?m)^version = {QUOTED}", 'version = "9.9.9"', "Cargo.toml has the version 9.9.9, not"),
        (
            "Cargo.lock",
            f'(?<=orcas_core"\nversion = ){QUOTED}',
            '"9.9.9"',
            f"Cargo.lock has the version {VERSION}, 9.9.9",
        ),
        ("CHANGELOG.md", r"## \S+ ", "## 9.9.9 ", f"CHANGELOG.md has no section {VERSION}"),
        ("CHANGELOG.md", "(?=## )", "## Unreleased\n\n- more\n\n", "CHANGELOG.md has unreleased changes"),
    ],
)
def test_a_place_that_disagrees_is_named(checkout: Checkout, name: str, pattern: str, new: str, said: str) -> None:
    path = checkout.root / name
    path.write_text(re.sub(pattern, new, path.read_text(encoding="utf-8")), encoding="utf-8")
    checkout.commit()
    done = checkout.release(VERSION)
    assert done.returncode == 1
    assert said in done.stdout
    assert done.stderr == f"release: {VERSION} cannot be released yet, for 1 reasons.\n"


def test_the_tree_and_the_tag_are_looked_at(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.root / "new.txt").write_text("new")
    assert "the tree has changes that are not committed: new.txt" in checkout.release(VERSION).stdout
    checkout.git("tag", f"v{VERSION}")
    checkout.commit()
    assert f"the tag v{VERSION} is taken by another commit" in checkout.release(VERSION).stdout
    # Only the repository from which this one was cloned has it.
    checkout.git("clone", "--quiet", "--no-tags", ".", str(tmp_path / "clone"))
    clone = subprocess.run(
        [sys.executable, tmp_path / "clone/.ci/release", VERSION],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert f"the tag v{VERSION} is taken by another commit" in clone.stdout
    assert "1.0 is not of the form MAJOR.MINOR.PATCH" in checkout.release("1.0").stdout


@pytest.fixture
def script() -> ModuleType:
    """`.ci/release` as a module."""
    spec = importlib.util.spec_from_loader("release", SourceFileLoader("release", str(ROOT / ".ci" / "release")))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_goes_with_the_packages_is_made_and_rehearsed(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dist, out, tools = (tmp_path / name for name in ("dist", "out", "tools"))
    for name, path in (("DIST", dist), ("OUT", out), ("TOOLS", tools)):
        monkeypatch.setattr(script, name, path)
    monkeypatch.setattr(script, "image", lambda: None)
    dist.mkdir()
    wheel = dist / f"orcas_s3-{VERSION}-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    bom = {"specVersion": "1.5", "components": [{"bom-ref": "path+file:///home/me/rust_core#orcas_core@0.1.0"}]}
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("orcas_s3.dist-info/sboms/orcas_core.cyclonedx.json", json.dumps(bom))
    program = tools / "bin" / "cyclonedx-py"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\n[ "$3" = --output-file ] && cp "$(dirname "$4")"/*-crates.cdx.json "$4"\n')
    program.chmod(0o755)
    script.files(VERSION)
    crates = json.loads((out / f"orcas-s3-{VERSION}-crates.cdx.json").read_text(encoding="utf-8"))
    assert crates["components"] == [{"bom-ref": "orcas_core@0.1.0"}]
    sums = dict(reversed(line.split()) for line in (out / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    assert set(sums) == {wheel.name, *(path.name for path in out.glob("*.cdx.json"))}
    assert sums[wheel.name] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (out / "notes.md").read_text(encoding="utf-8").strip()
    capsys.readouterr()
    script.rehearse(VERSION)
    said = capsys.readouterr().out
    assert f"  {wheel.name}, {wheel.stat().st_size:,} bytes\n" in said
    assert said.count("which the workflow builds\n") == 5
    assert "manylinux_2_17_x86_64.whl, which" not in said
    # Files of another version would be published with it.
    (dist / "orcas_s3-9.9.9.tar.gz").touch()
    with pytest.raises(SystemExit, match=r"other versions: orcas_s3-9\.9\.9\.tar\.gz"):
        script.files(VERSION)


def test_the_workflow_publishes_where_a_rehearsal_says(script: ModuleType) -> None:
    jobs = WORKFLOW["jobs"]
    images = {entry["name"] for entry in jobs["image"]["strategy"]["matrix"]["include"]}
    assert set(script.IMAGES) == images
    assert jobs["publish"]["environment"] == "release"
    assert {jobs[name]["needs"][-1] for name in ("image", "pages")} == {"publish"}
    uploads = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"] if "uses" in step]
    assert uploads[-1] == "pypa/gh-action-pypi-publish"


def test_what_may_publish_installs_nothing() -> None:
    for name, job in WORKFLOW["jobs"].items():
        if "write" in job.get("permissions", {}).values():
            assert not re.search(r"pip |\.ci/", str(job["steps"])), name


def test_workflows_have_no_secrets() -> None:
    for path in (ROOT / ".github").rglob("*.yml"):
        assert "secrets." not in path.read_text(encoding="utf-8"), path
