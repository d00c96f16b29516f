"""Installations that cannot work, and users without a home: each ends with one sentence that says what to do."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.commands import ran

import orcas
from orcas import _core
from orcas.settings.config import child_environment

EXTENSION = Path(_core.__file__)
# Where the header of a library says for which machine it is, and a machine that no test runs on.
MACHINE_AT, SPARC = 18, b"\x02\x00"
LIBRARY = """
import orcas

for code in ("orcas.Server(memory=True)", "orcas.create_app(memory=True)", "from orcas import events"):
    try:
        exec(code)
    except orcas.UnavailableError as error:
        print(error)
"""


@pytest.fixture(params=["missing", "cut", "of another machine", "of another version"])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with the package, whose extension is not what it should be."""
    package = tmp_path / "orcas"
    package.mkdir()
    for path in Path(orcas.__file__).parent.iterdir():
        if not path.name.startswith("_core."):
            (package / path.name).symlink_to(path)
    with EXTENSION.open("rb") as file:
        head = file.read(4096)
    if request.param == "cut":
        (package / EXTENSION.name).write_bytes(head[:100])
    elif request.param == "of another machine":
        (package / EXTENSION.name).write_bytes(head[:MACHINE_AT] + SPARC + head[MACHINE_AT + 2 :])
    elif request.param == "of another version":
        (package / "_core.py").write_text("")
    return tmp_path


def python(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *arguments], cwd=place, env=child_environment() | {"PYTHONPATH": str(place)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_broken_extension_is_a_sentence(broken: Path) -> None:
    again = f"install it again with `{sys.executable} -m pip install --force-reinstall orcas-s3`."
    done = python(broken, "-m", "orcas", "serve", "--memory", "-p", "0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (69, "", 1), done
    assert done.stderr.startswith("orcas: Orcas is not completely installed, or for another machine (")
    assert done.stderr.endswith(f"{again}\n")
    done = python(broken, "-c", LIBRARY)
    assert (done.returncode, done.stdout.count(again)) == (0, 3), done


def test_an_older_python_is_told_so() -> None:
    done = python(Path(orcas.__file__).parents[1], "-c", "import sys; sys.version_info = (3, 10, 13); import orcas")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: Orcas needs Python 3.11 or later: run it with a newer one")


@pytest.fixture(params=["unknown", "a file", "gone"])
def homeless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a user whom the system does not know, or whose home is a file, or in no file system."""
    environ = child_environment()
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        environ.pop(name, None)
    if request.param == "unknown":
        monkeypatch.setattr(pwd, "getpwuid", lambda user: {}[user])
        return environ
    return environ | {"HOME": {"a file": os.devnull, "gone": "/proc/nobody"}[request.param]}


def test_a_user_without_a_home_is_asked_for_a_directory(homeless: dict[str, str], tmp_path: Path) -> None:
    done = ran(homeless, str(tmp_path), "serve", "--port", "0")
    assert (done.returncode, done.stdout) == (69 if "HOME" in homeless else 78, "")
    assert done.stderr.count("\n") == 1
    assert "--data" in done.stderr
    # A directory is all that is missing.
    done = ran(homeless, str(tmp_path), "inspect", "--data", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count("There is no store in")) == (69, 1), done
    done = ran(homeless, str(tmp_path), "serve", "--data", "~/store")
    assert (done.returncode, done.stderr.count("\n")) == ((69 if "HOME" in homeless else 2), 1)


def test_a_store_in_memory_needs_no_home(homeless: dict[str, str], tmp_path: Path) -> None:
    done = ran(homeless, str(tmp_path), "run", "--bucket", "photos", "--", "true")
    assert done.returncode == 0, done
