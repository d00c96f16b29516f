"""Every example in the documents, help texts and docstrings is run, or listed here with the reason why not."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
import typer.main
import yaml
from tests.fixtures.commands import own_process
from tests.fixtures.sources import PAGES as ALL_PAGES

import orcas
from orcas.bench.workload import read_workload
from orcas.cli import run
from orcas.cli.commands import app_with_all
from orcas.iam.file import read_identities
from orcas.settings.config import Settings, child_environment, environment

APP: Final = app_with_all()
ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = ROOT / "python" / "orcas"
# Those of the checkout first; a page comes before the pages of its folder, which use what it makes.
PAGES: Final = sorted(ALL_PAGES, key=lambda path: (path.parent != ROOT, path.with_suffix("").parts))

# Output for stores that are full, damaged or read-only. `tests/test_operations_guide.py` checks the commands.
TRANSCRIPTS: Final = {
    *(ROOT / "docs" / "operations").glob("*.md"),
    *(ROOT / "docs" / f"{name}.md" for name in ("exit-codes", "operations", "releases", "upgrade")),
}

# Pages whose examples another test runs.
ELSEWHERE: Final = {
    ROOT / "docs" / "tutorial.md": "test_the_tutorial_runs",
    ROOT / "docs" / "events" / "aws.md": "tests/conformance/events/test_aws_targets.py",
    ROOT / "docs" / "how-to" / "use-with.md": "tests/clients/documents/test_use_with.py",
    ROOT / "docs" / "tables.md": "tests/clients/tables/test_documents.py",
    ROOT / "docs" / "tables" / "catalog.md": "tests/clients/tables/test_documents.py",
}

# Languages whose blocks another test runs.
LANGUAGES: Final = {
    "go": "tests/clients/documents/test_go.py",
    "js": "tests/console/browser/test_documents.py",
}

# Lines that are not run, each with the reason. Options of `orcas bench` and scripts are checked (`is_understood`).
NOT_RUN: Final = {
    "pip install .*": "downloads",
    r"\. \.venv/bin/activate": "needs what `make run` installs",
    "pytest benchmarks/.*": "takes minutes, and is part of continuous integration",
    "cargo bench .*": "compiles for minutes",
    "python benchmarks/.*": "takes minutes up to an hour",
    "orcas bench.*": "takes minutes; tests/bench runs the command on small workloads",
    "(uvicorn|hypercorn|granian) .*": "other people's servers, until a signal; tests/hosts runs each",
    "orcas serve .*--host ::": "lets other machines in",
    "docker .*|install -d .*|openssl .* > deploy/.*": "needs Docker",
    "(helm|kubectl) .*": "needs a cluster",
    "export AWS_CA_BUNDLE=.*": "the other lines would trust a CA that is not there",
    "curl .* --cert .*": "needs a certificate; tests/tls/test_client_certificates.py has some",
    "orcas serve .*--acme .*": "needs a host name; tests/tls has one",
    "orcas console": "opens a browser",
    "orcas localstack": "takes a port that others may have; tests/hosts/test_localstack.py runs it",
    ".*orcas minio server .*": "lets other machines in; tests/hosts/test_minio.py runs it on loopback",
    "orcas credentials serve.*": "does not end; tests/unit/commands/test_credentials.py asks what it serves",
    "orcas stop": "ends the server of the other lines; tests/tools/test_status.py stops one of its own",
    "orcas access-key (disable|enable|delete|limit) .*": "need a key that was made; tests/tools/test_identities.py has some",
    "orcas access-key rotate-root": "ends the key of the other lines; tests/tools/test_identities.py replaces one",
    "orcas serve --log .*|orcas cluster .*": "need nodes that share a log; tests/cluster runs each",
    r"(AWS_\w+=\S+ )*orcas (standby|promote) .*|orcas (status|stop|serve|fsck) --data /srv/standby": "need a server; "
    "tests/tools/test_standby.py runs each",
    "orcas table (show|history|rollback|expire|orphans|branch) .*": "need a table; tests/unit/tables, tests/clients/tables "
    "have some",
    "orcas serve --salvage": "needs a damaged store; tests/crash/test_salvage.py has some",
    r'eval "\$\(orcas env --memory .*': "sees the other servers of this user too; test_cli runs it with a port",
    "orcas events (dead|resend|discard) .*": "needs a target; tests/conformance/events/test_webhooks.py has some",
    ".*orcas key .*": "needs a keyring; tests/tools/test_keyring.py runs each of them",
    "S3TEST_CONF=.*": "needs a copy of ceph/s3-tests, and takes minutes",
    "curl .*/_orcas/events.*": "does not end; tests/edge/test_event_streams.py runs it until the first event",
    "orcas run .* -- (npm|go) .*|orcas run -- npm .*": "needs a suite in that language; tests/clients/documents has one",
    "orcas aws .*|orcas mc .*": "need a server at the port of the other; tests/hosts/test_image.py has one",
    "orcas probe .*--endpoint .*": "needs a second S3 server; tests/tools/objects/test_probe.py has some",
    "orcas backup s3://.*": "needs a second S3 server; tests/tools/test_backup.py has one",
    r"orcas origin (set|remove) .*|aws s3 cp s3://models/llama\.bin \.": "need a second S3 server; tests/origins has one",
    "orcas replication .*": "needs a second S3 server; tests/replication/test_commands.py runs each",
    "orcas import https://old.example.org/.*|scp .*|ssh .*": "need a second server",
    "orcas import --minio-disk .*": "needs drives of MinIO; tests/tools/imports/test_minio_disks.py has some",
    r"orcas import https://minio\.example\.org(/photos .*)?": "needs its keys, which the page about MinIO sets",
}
# Lines that answer by their exit code, and the code.
EXIT_CODES: Final = {"orcas policy explain (alice s3:DeleteObject|viewer s3:PutObject) .*": 3}
# Indented text in docstrings that is not an example.
NO_CODE: Final = {"errors.py": "the tree of exceptions"}
# Names in examples, and what replaces them here.
PLACES: Final = {"/mnt/backups": "$HOME/backups"}
# Servers from which examples import, each with its key, which is its secret as well; servers in memory replace them.
SOURCES: Final = {
    "https://minio.example.org": "minioadmin", "http://localhost:4566": "testing1", "http://localhost:5000": "any-key-here",
}  # fmt: skip


@dataclass
class Example:
    """One block: its place, its language and its text."""

    place: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The shell lines of a block, without output and comments."""
        lines = self.text.splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        words = [re.split(r"\s{2,}", line.strip())[0] for line in lines if line.strip()]
        # Commands that a shell would run in the background run in the background here anyway.
        return [line.removesuffix("&").rstrip() for line in words]


def fenced(path: Path) -> Iterator[Example]:
    text = path.read_text(encoding="utf-8")
    for found in re.finditer(r"^( *)```(\S*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, found.start()) + 1
        yield Example(f"{path.relative_to(ROOT)}:{line}", found[2], textwrap.dedent(found[3]))


def indented(text: str, place: str) -> Iterator[Example]:
    """Blocks indented by four spaces after an empty line, as in help texts and docstrings."""
    for found in re.finditer(r"(?:\A|\n)\n((?: {4}.*\n?|\n)+)", text):
        block = textwrap.dedent(found[1]).strip("\n")
        python = block.startswith(("import ", "from ", "with ", "async with "))
        yield Example(place, "python" if python else "sh", block)


def docstrings() -> Iterator[Example]:
    """The docstrings of the package; that of a command is its help text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in NO_CODE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from indented(
                    ast.get_docstring(node) or "", f"{path.relative_to(ROOT)}:{getattr(node, 'name', '')}"
                )


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its path, and `orcas` itself."""

    def below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        subs = getattr(command, "commands", {})
        if not subs or path == "orcas" or command.invoke_without_command:
            yield path, command
        for name, sub in subs.items():
            yield from below(sub, f"{path} {name}")

    return below(typer.main.get_command(APP), "orcas")


def helps() -> Iterator[Example]:
    """The help of every command, which is not always a docstring, and epilogs."""
    for path, command in commands():
        for text in (command.help, command.epilog):
            yield from indented(str(text or "").replace("\b\n", ""), f"{path} --help")


def examples() -> list[Example]:
    found = [example for path in PAGES if path not in TRANSCRIPTS and path not in ELSEWHERE for example in fenced(path)]
    # Console lines come before programs that need their server, those of the README first.
    return [*found, *docstrings(), *helps()]


@dataclass
class Shell:
    """A home directory, variables that one line passes to the next, and servers that run until the end."""

    home: Path
    stack: contextlib.ExitStack
    variables: dict[str, str]
    done: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def seen(self) -> dict[str, str]:
        """Set the variables of the lines in this process."""
        names = ("AWS_", "ORCAS_", "SOURCE_", "HOME", "XDG_")
        return {name: value for name, value in self.variables.items() if name.startswith(names)}

    def run(self, line: str, place: str) -> None:
        """Run one line, unless it was run before. A server keeps running if the other lines use its store."""
        if line in self.done:
            return
        self.done.add(line)
        for name, stands in (PLACES | self.sources).items():
            line = line.replace(name, stands)
        if re.match(r"(\w+=\S+ )*orcas serve", line):
            self._serve(line, place)
            return
        if line.startswith("orcas ") and not set(line) & set("|&;>") and "$(" not in line:
            self._in_this_process(line, place)
            return
        # A server of its own, which says that a store does not count.
        apart = {"ORCAS_DATA": self.variables["ORCAS_DATA"]} if line.startswith("orcas run ") else {}
        script = f'set -e\n{line}\nenv -0 > "$HOME/.env"'
        done = subprocess.run(
            ["bash", "-c", script],
            env={name: value for name, value in self.variables.items() if name not in apart},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{place}: {line}: {done.stderr}"
        assert not done.stderr, f"{place}: {line}: {done.stderr}"
        handed_on = (self.home / ".env").read_text().split("\0")
        self.variables = apart | dict(entry.split("=", 1) for entry in handed_on if entry)

    def _in_this_process(self, line: str, place: str) -> None:
        """Run it in this process, which saves the time to start one; `env` and `serve` above need their own."""
        words = [word.replace("$HOME", str(self.home)) for word in shlex.split(line)]
        with environment(self.seen), own_process():
            code = next((code for pattern, code in EXIT_CODES.items() if re.fullmatch(pattern, line)), 0)
            assert run(words[1:]) == code, f"{place}: {line}"

    def _serve(self, line: str, place: str) -> None:
        # Port 9000 may be taken, so a line without a port gets a free one.
        variables = {**self.variables, "ORCAS_PORT": "0"}
        variables.pop("ORCAS_DATA", None)
        # The server ends when its standard input does, so it does not outlive a test run that is killed.
        script = f"{line} & exec >&-; read -r; kill $!; wait"
        process = self.stack.enter_context(
            subprocess.Popen(
                ["bash", "-c", script], env=variables, cwd=self.home, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert re.fullmatch(r"orcas ready https?://127\.0\.0\.1:[0-9]+\n", ready), f"{place}: {line}: {ready!r}"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    # Building all commands takes a quarter of a second, and several hundred lines need them.
    monkeypatch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
    (tmp_path / "pictures").mkdir()
    for name in ("README.md", "picture.jpg", "pictures/a.jpg"):
        (tmp_path / name).write_bytes(name.encode() * 10_000)
    variables = {name: value for name, value in child_environment().items() if not name.startswith("AWS_")}
    variables |= {
        "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # Lines without --data use the store of the README, which is the one that nobody has named.
        "ORCAS_DATA": str(tmp_path / "data" / "orcas"),
        "NO_PROXY": "127.0.0.1,localhost", "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path),
    }  # fmt: skip
    mask = os.umask(0o077)
    with contextlib.ExitStack() as stack:
        stack.callback(os.umask, mask)
        old = {
            key: stack.enter_context(
                orcas.Server(memory=True, root_access_key=key, root_secret_key=key, buckets=[f"from-{key}"])
            ).endpoint
            for key in set(SOURCES.values())
        }
        yield Shell(tmp_path, stack, variables, sources={url: old[key] for url, key in SOURCES.items()})


def is_understood(line: str) -> None:
    """Check that the command and options of a line that is not run exist."""
    words = shlex.split(line)
    if words[:2] == ["orcas", "bench"] or words[0] == "orcas":
        with typer.main.get_command(APP).make_context("orcas", words[1:]) as context:
            command = context.command.get_command(context, words[1])  # type: ignore[attr-defined]
            parsed = command.make_context(words[1], words[2:], parent=context)
            if words[1] == "bench":
                read_workload(parsed.params["workload"])
    elif words[0] == "python":
        source = (ROOT / words[1]).read_text(encoding="utf-8")
        for option in (word for word in words if word.startswith("--")):
            assert f'"{option}"' in source, f"{line}: there is no {option}"


def run_python(example: Example, shell: Shell, names: dict[str, Any]) -> None:
    with environment(shell.seen):
        exec(compile(example.text, example.place, "exec"), names)  # noqa: S102 - the documents' own code


@pytest.mark.timeout(1800)  # two minutes of the AWS CLI, and more where other tests run beside it
def test_every_example_runs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    found = examples()
    monkeypatch.chdir(shell.home)
    # The default session keeps the first keys that it finds.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for example in found:
        place = example.place
        match example.language:
            case "python":
                run_python(example, shell, names)
            case "console" | "sh":
                for line in example.commands:
                    if any(re.fullmatch(known, line) for known in NOT_RUN):
                        is_understood(line)
                    else:
                        shell.run(line, place)
            case "toml":
                assert tomllib.loads(example.text)
                path = shell.home / "example.toml"
                path.write_text(example.text)
                if "[users." in example.text:
                    assert read_identities(path).users
                else:
                    assert read_workload(str(path)).cases
            case "yaml":
                assert yaml.safe_load(example.text)
            case "json":
                assert json.loads(example.text)
            case "xml":
                ET.fromstring(example.text)
            case other:
                assert other == "text" or (ROOT / LANGUAGES.get(other, "")).is_file(), (
                    f"{place}: a block in {other or 'no language'} is neither run nor marked as text"
                )
        if "aws s3 cp README.md s3://photos/" in shell.done and "2026/" not in shell.done:
            shell.done.add("2026/")
            with environment(shell.seen), contextlib.closing(boto3.client("s3")) as client:
                client.put_object(Bucket="photos", Key="2026/summer.jpg", Body=b"for `orcas export`")
                client.put_object(Bucket="photos", Key="2024/winter.jpg", Body=b"for `orcas move`")
                client.create_bucket(Bucket="incoming")
                client.put_object(Bucket="incoming", Key="new.jpg", Body=b"for `orcas move`")
    assert "orcas serve" in shell.done
    written = lines(found)
    assert not [known for known in NOT_RUN if not any(re.fullmatch(known, line) for line in written)], "no such line"


def test_the_tutorial_runs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first line to the last, as a reader who has done nothing else."""
    del shell.variables["ORCAS_DATA"]
    monkeypatch.chdir(shell.home)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    names: dict[str, Any] = {}
    for example in fenced(ROOT / "docs" / "tutorial.md"):
        if example.language == "python":
            run_python(example, shell, names)
        else:
            assert example.language == "console"
            for line in example.commands:
                shell.run(line, example.place)
    assert names["key"]["UserName"] == "guest"


def lines(found: list[Example]) -> list[str]:
    """Every shell line of the examples."""
    return [line for example in found if example.language in {"console", "sh"} for line in example.commands]


def test_the_first_commands_of_the_readme_are_about_one_store() -> None:
    """So `orcas status`, which the text names, finds the server that was started."""
    first = next(example for example in fenced(ROOT / "README.md") if example.language == "console")
    commands = [line for line in first.commands if "orcas" in line]
    assert len(commands) == 2
    assert not [line for line in commands if "--data" in line or "ORCAS_DATA" in line]


def test_examples_are_found_where_they_stand() -> None:
    found = examples()
    places = " ".join(example.place for example in found)
    for place in (
        "README.md",
        "docs/benchmarks/measure.md",
        "orcas --help",
        "python/orcas/__init__.py",
        "cli/server/bench.py:bench",
    ):
        assert place in places
    assert sum(example.language == "python" for example in found) >= 4
    assert {"orcas serve", "aws s3 mb s3://photos", "orcas config show"} <= set(lines(found))


def test_every_command_has_an_example_and_says_its_defaults() -> None:
    for path, command in commands():
        assert any("orcas" in example.text for example in indented(command.help, path)), path
    defaults = Settings(data=Path())
    options = {option.name: option.help for option in dict(commands())["orcas serve"].params}
    for name in ("host", "port", "durability", "disk_reserve"):
        assert f"(default: {getattr(defaults, name)})" in options[name]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_that_are_named_in_the_text_exist(path: Path) -> None:
    known = typer.main.get_command(APP)
    with known.make_context("orcas", ["version"]) as context:
        for line in re.findall(r"`orcas ([a-z][^`]*)`", path.read_text(encoding="utf-8")):
            # What follows `--` is another command.
            words = [word.strip("[],") for word in line.partition(" -- ")[0].split()]
            if words[0] == "ready":
                continue  # what `orcas serve` prints
            command = known.get_command(context, words[0])  # type: ignore[attr-defined]
            assert command is not None, f"orcas {line}"
            if words[0] == "config":
                continue
            if hasattr(command, "commands") and words[1:]:
                command = command.commands.get(words[1])
                assert command is not None, f"orcas {line}"
            options = {name for parameter in command.params for name in parameter.opts}
            assert {word for word in words[1:] if word.startswith("-")} <= options | {"--help"}, f"orcas {line}"
