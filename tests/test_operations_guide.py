"""The guides for operators: every command in them exists as written, and every exit code is explained."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from orcas import errors
from orcas.cli.commands import app_with_all
from orcas.process import failures

ROOT = Path(__file__).parent.parent
GUIDES = [
    "SECURITY.md", "docs/exit-codes.md", "docs/hardening.md", "docs/releases.md", "examples/README.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("operations/*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("encryption/*.md"))),
]  # fmt: skip
BLOCK = re.compile(r"^ *```(?:console|sh)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def text(guide: str) -> str:
    return (ROOT / guide).read_text(encoding="utf-8")


def commands(guide: str) -> list[str]:
    """The commands `orcas …` in shell blocks, after the prompt, and between backquotes."""
    typed = [line.strip().removeprefix("$ ") for block in BLOCK.findall(text(guide)) for line in block.splitlines()]
    prose = re.sub(r"```.*?```", "", text(guide), flags=re.DOTALL)
    quoted = [" ".join(found.split()) for found in re.findall(r"`(orcas [^`]+)`", prose)]
    # A line that the server prints.
    found = [line for line in typed + quoted if line.startswith("orcas ") and not line.startswith("orcas ready ")]
    # Without what follows a pipe.
    return [re.split(r"\\?\|", line.replace("[", "").replace("]", ""))[0] for line in found]


def understood(line: str) -> None:
    """Fails with the objection of `orcas` to its arguments; runs nothing."""
    command: Any = typer.main.get_command(app_with_all())
    words = shlex.split(line)[1:]
    # `orcas audit` has options of its own.
    while hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, line
        command, words = command.commands[words[0]], words[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word.startswith("-") and word not in {"--help", "-h"}:
            assert word.partition("=")[0] in options, f"{word} in `{line}`"


def test_documented_commands_are_understood() -> None:
    found = [line for guide in GUIDES for line in commands(guide)]
    assert len(found) > 50
    for line in found:
        understood(line)


def test_an_unknown_option_is_found() -> None:
    understood("orcas fsck --data DIR --repair --accept-loss")
    with pytest.raises(AssertionError, match="--loss"):
        understood("orcas fsck --loss")
    with pytest.raises(AssertionError):
        understood("orcas mend")


def test_every_exit_code_is_documented() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text("docs/exit-codes.md"), re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.OrcasError)]
    codes = {value for name, value in vars(failures).items() if name.startswith("EXIT_")}
    assert documented == {0, *codes, *(kind.exit_code for kind in kinds)}
