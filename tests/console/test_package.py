"""What the console is in the installed package. `.ci/run` installs a wheel, so this says what a wheel has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.fixtures.sources import PACKAGE

import orcas.console
from orcas.console.rendering import environment, static_files

BYTES_MAX: Final = 600 * 1024


def files_of(folder: Path) -> dict[str, Path]:
    """Each file below a folder by its path there, without what Python has compiled."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path for path in found}


def test_every_file_of_the_source_is_in_the_package() -> None:
    source, installed = files_of(PACKAGE / "console"), files_of(Path(orcas.console.__file__).parent)
    assert set(installed) == set(source)
    assert {name.rpartition(".")[2] for name in source} == {"py", "html", "css", "js"}
    assert set(static_files()) == {path.name for path in source.values() if path.parent.name == "static"}


def test_the_package_has_every_template_and_each_is_one() -> None:
    templates = {name.removeprefix("templates/") for name in files_of(PACKAGE / "console") if name.endswith(".html")}
    assert set(environment().list_templates()) == templates
    for name in templates:
        assert environment().get_template(name).name == name


def test_what_the_console_adds_to_the_package_is_small() -> None:
    # A wheel is compressed: there, it is less than half of this.
    assert sum(path.stat().st_size for path in files_of(Path(orcas.console.__file__).parent).values()) <= BYTES_MAX
