"""docs/messages.md lists every sentence with which a command ends, and each of them is provoked.

Most are provoked by command lines alone (`FAILURES`); for some, a part of the system fails on purpose (`FAULTS`); some are
of the Python interface; and the rest are the subject of other tests, which have their words.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.fixtures.broken import broken
from tests.fixtures.messages import PAGE, Row, listed, raised
from tests.fixtures.sources import ROOT
from tests.fixtures.tables.failing import check
from tests.fixtures.tables.failures import FAILURES

import orcas
from orcas import errors
from orcas.admin.upkeep import destroy_due
from orcas.control.files.address import Address
from orcas.engine import StoreError, _KeyringSealer, close_core
from orcas.errors import OrcasError
from orcas.serving.serve import _Server
from orcas.settings.config import child_environment, resolve
from orcas.testing import Control
from orcas.tools.imports.requests import ObjectError
from orcas.tools.objects import Listed, opened
from orcas.tools.salvage import write_report
from orcas.tools.session import HttpTransport, RefusedError, Session

ROWS: Final = listed()
# In place of a value: there is none.
ABSENT: Final = object()


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


async def nothing(*_: object) -> None:
    """An application that gives no answer."""


def without_pins(_: Session, method: str, path: str, order: object = None, ask: Any = Session.admin) -> Any:
    if method == "PUT":
        raise RefusedError(404, "There is no backup pin with this id.")
    return ask(_, method, path, order)


def with_longer_files(_: Session, method: str, path: str, order: object = None, ask: Any = Session.admin) -> Any:
    answer = ask(_, method, path, order)
    for file in answer.get("files", ()):
        file["length"] += 1
    return answer


@contextlib.contextmanager
def announced_longer(*arguments: Any) -> Iterator[Any]:
    with opened(*arguments) as found:
        assert found is not None
        found.size += 1
        yield found


FULL: Final = OSError(errno.ENOSPC, "No space left on device")
FAILED_JOB: Final = {
    "id": "1",
    "state": "failed",
    "progress": {"total": {"moved_bytes": 0}},
    "error": "The disk is full.",
}
LEFT: Final = dict.fromkeys(("blobs", "bytes", "uploads", "files", "index"), 0)
SEALED: Final = {
    **dict.fromkeys(("seen", "versions", "uploads", "bytes", "stored_bytes", "no_room", "too_long", "unreadable"), 0),
    "changed": 1, "left": LEFT,
}  # fmt: skip
NOT_MEASURED: Final = {"ok": False, "cases": [{"servers": [{"errors": 0, "wrong": 0}]}]}
WRONG: Final = {"ok": False, "cases": [{"servers": [{"errors": 2, "wrong": 1}]}]}

# As `FAILURES`, with what is replaced in Orcas or in Python to make the command fail.
FAULTS: Final[list[tuple[str, int, str, str, Any]]] = [
    ("version", 1, "ran out of memory", "orcas.version.orcas_version", raising(MemoryError())),
    ("version", 130, "interrupted", "orcas.version.orcas_version", raising(KeyboardInterrupt())),
    ("version", 1, "failed: No space left on device; make room.", "orcas.version.orcas_version", raising(FULL)),
    (
        "version",
        1,
        "failed unexpectedly: ZeroDivisionError",
        "orcas.version.orcas_version",
        raising(ZeroDivisionError()),
    ),
    ("version", 69, "install it again", "orcas.version.orcas_version", raising(ImportError("No module named 'x'"))),
    ("serve --memory --port 0", 69, "store in memory cannot be created", "orcas.process.memory._base", raising(FULL)),
    ("run -- true", 69, "The server cannot be started", "subprocess.Popen", raising(FULL)),
    (
        "env --memory",
        69,
        "select one with --port",
        "orcas.process.memory.private_directories",
        lambda: [Path("/"), Path("/a")],
    ),
    (
        "gc --data {store}",
        1,
        "(The disk is full): remove the cause",
        "orcas.tools.session.Session.admin",
        lambda *_: FAILED_JOB,
    ),
    ("stats --data {store}", 69, "The store gave no answer", "orcas.serving.app.Orcas.__call__", nothing),
    ("top --endpoint {http200}", 69, "has more than 1 bytes", "orcas.tools.samples._PAGE_MAX", 1),
    (
        "backup {out}-a --data {store}",
        69,
        "cannot be copied",
        "orcas.control.files.copies._until",
        raising(sqlite3.OperationalError("busy")),
    ),
    (
        "backup {out}-b --data {store}",
        69,
        "pin on the store was lost",
        "orcas.tools.session.Session.admin",
        without_pins,
    ),
    (
        "backup {out}-d --data {store}",
        69,
        "the directory of that store?",
        "orcas.tools.session.Session.admin",
        with_longer_files,
    ),
    ("backup {out}-e --data {store}", 69, "shorter than it must be", "os.pread", lambda *_: b""),
    (
        "AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} backup s3://a-b --target-endpoint {url} --data {store}",
        69,
        "did not store all of",
        "boto3.s3.inject.upload_fileobj",
        lambda *_, **__: None,
    ),
    (
        "export {out}-f --data {store}",
        69,
        "arrived with 1048576 bytes instead of 1048577",
        "orcas.tools.copies.export.opened",
        announced_longer,
    ),
    ("usage --data {store}", 1, "ask for a shorter time", "orcas.control.usage.REPORT_ROWS_MAX", 0),
    ("backup s3://a/b --data {store}", 1, "needs boto3", "boto3.s3.transfer.TransferConfig", ABSENT),
    ("import {url} --source-profile p --data {store}", 1, "A profile needs boto3", "botocore.session.Session", ABSENT),
    (
        "import {url} --source-profile p --data {store}",
        78,
        "The profile p has no keys",
        "botocore.session.Session.get_credentials",
        lambda _: None,
    ),
    (
        "SOURCE_AWS_ACCESS_KEY_ID=a SOURCE_AWS_SECRET_ACCESS_KEY=b import {http500}/b c-d --data {store} --json",
        1,
        "such as b/k, because",
        "orcas.tools.imports.pool.PAUSES_SECONDS",
        (),
    ),
    (
        "import {full} e-f --data {store}",
        69,
        "The import has stopped, because the store says SlowDown: remove the cause",
        "orcas.tools.imports.target.Target.put",
        raising(ObjectError("the store says SlowDown", 503, at_target=True)),
    ),
    (
        "import {full} e-f --data {store}",
        1,
        "cannot be imported (the store says no): remove the cause",
        "orcas.tools.imports.target.Target.exists",
        raising(ObjectError("the store says no", 403, at_target=True)),
    ),
    (
        "import {full} e-f --data {store}",
        69,
        "are not listed in order",
        "orcas.tools.imports.directory.DirectorySource.listed",
        lambda *_: iter([Listed(b"b", 0, ""), Listed(b"a", 0, "")]),
    ),
    ("fsck --repair --accept-loss --data {bad-quotas}", 69, "cannot be renamed", "pathlib.Path.replace", raising(FULL)),
    (
        "export {out}-c --endpoint {http500}",
        69,
        "is case-insensitive",
        "pathlib.Path.exists",
        lambda path: path.name.startswith("CASE"),
    ),
    (
        "compact --seal --endpoint {http200} --json",
        1,
        "kept changing: run the command again",
        "orcas.tools.work.run_job",
        lambda *_, **__: SEALED,
    ),
    (
        "serve --memory --tls-self-signed --port 0",
        78,
        "package cryptography",
        "orcas.serving.serve.find_spec",
        lambda _: None,
    ),
    (
        "serve --data {new} --acme s3.test --acme-accept-terms --port 0",
        78,
        "package acme",
        "orcas.serving.serve.find_spec",
        lambda _: None,
    ),
    (
        "ORCAS_TLS_CERT_FILE=a ORCAS_TLS_KEY_FILE=b ORCAS_TLS_CLIENT_CA_FILE=c serve --memory --port 0",
        78,
        "CA_FILE needs the package",
        "orcas.serving.serve.find_spec",
        lambda _: None,
    ),
    (
        "ORCAS_TLS_CERT_FILE={tls}/own.pem ORCAS_TLS_KEY_FILE={tls}/key.pem serve --memory --port 0",
        78,
        "cannot be read: No space left",
        "ssl.SSLContext.load_cert_chain",
        raising(FULL),
    ),
    ("access-key rotate-root --data {store}", 1, "is kept", "typer.confirm", lambda *_, **__: False),
    ("key destroy k --data {store}", 1, "is kept", "typer.confirm", lambda *_, **__: False),
    (
        "import --minio-disk {full} --versions --move --data {store}",
        1,
        "Nothing was imported",
        "typer.confirm",
        lambda *_, **__: False,
    ),
    ("bench --json", 1, "not a valid measurement", "orcas.bench.measure.run", lambda *_: NOT_MEASURED),
    ("bench --json", 1, "2 operations failed and 1 answers were wrong", "orcas.bench.measure.run", lambda *_: WRONG),
]


class DeafEngine:
    """An engine, and its keyring, on a full disk."""

    def seal_control(self, *_: object) -> None:
        raise StoreError("the disk is full")

    upkeep = close = seal_control


async def ask_killed() -> str:
    # In a coroutine, it does not wait until the server is ready.
    server = orcas.Server(memory=True)
    server.kill()
    return server.endpoint


def library(places: dict[str, str]) -> Iterator[tuple[int, Callable[[], object]]]:
    """Calls of the Python interface that fail, with the exit code that a command has for it."""
    yield 78, lambda: orcas.Server()
    yield 78, lambda: orcas.create_app(port=0)
    yield 78, lambda: orcas.create_app(data=places["new"], memory=True)
    yield 69, lambda: orcas.Server(memory=True, timeout=0)
    yield 69, lambda: orcas.Server(places["full"])
    yield 78, lambda: orcas.Server(memory=True, encrypt_by_default=True)
    yield 78, lambda: orcas.Server(memory=True, any_signature=True)
    server: Any = SimpleNamespace(endpoint=places["url"], access_key="a", secret_key="b", region="us-east-1", ca=None)
    yield 1, lambda: Control(server).seed(places["new"], "b")
    with Control(server) as control:
        yield 1, lambda: control.create_bucket("b-c")
    # The listener fails in this test, because another process listens already.
    nothing: Any = None
    app: Any = SimpleNamespace(connections=SimpleNamespace(certificates=None))
    yield 69, lambda: asyncio.run(_Server(app, resolve({}), asyncio.Event()).serve_behind(nothing, nothing))
    yield 69, lambda: write_report(Path("/dev/null/report"), {})
    another = HttpTransport(places["https"], certificate="0" * 64)
    yield 69, lambda: Session(another, ("a", "b"), "us-east-1").admin("GET", "iam")
    yield 69, lambda: asyncio.run(ask_killed())
    engine: Any = DeafEngine()
    yield 69, lambda: _KeyringSealer(engine).seal("control.key", b"")
    yield 1, lambda: destroy_due(engine, Path())
    yield 1, lambda: close_core(engine)


# Other tests, with the beginning of what each provokes, and words by which it knows that.
ELSEWHERE: Final = {
    "tests/clients/tables/test_upkeep.py": {
        "… was dropped or renamed": "was dropped or renamed meanwhile",
        "The catalog refused the commit": "The catalog refused the commit (The snapshot",
        "The manifests of … cannot be read": "The manifests of .+ cannot be read",
        "… is missing, so nothing is deleted": "is missing, so nothing is deleted",
        "The place of …": "was given to it and may have files of others",
    },
    "tests/bench/test_bench.py": {"… rejected … of … objects": "rejected 10 of 10 objects"},
    "tests/crash/test_damaged_rights.py": {
        "The database of identities": "The database of identities is damaged",
        "The rights of … were damaged": "The rights of user alice were damaged, and deny everything",
        "control.db is damaged at": "control.db is damaged at A",
    },
    "tests/console/test_sessions.py": {"The server has no console": "The server has no console: start it"},
    "tests/edge/test_traces.py": {"ORCAS_TRACES_ENDPOINT needs": "pip install 'orcas-s3"},
    "tests/unit/events/test_targets_file.py": {
        "The targets … and … in": "are both for",
        "The target … in … would get": "the events for arn:aws:sqs:",
    },
    "tests/unit/commands/test_report.py": {
        "The index does not match": "next_step(",
        "No object is lost, but": "next_step(",
        "The log is damaged, and": "next_step(",
        "A copy of the store's keys": "next_step(",
    },
    "tests/testing/test_installation.py": {"There is no home directory": "--data"},
    "tests/tls/test_client_certificates.py": {"… cannot be used: …": "{cut} cannot be used: "},
    "tests/tls/test_names.py": {
        "The certificate in … is for no host": "is for no host: name it first, or leave it out"
    },
    "tests/tools/test_standby.py": {
        "There is no standby in that directory": "name the server to follow with --from",
        "… is a standby of": "orcas promote",
        "… is no standby": "is no standby",
        "… has no complete copy": "no complete copy",
        "… has a store of its own": "has a store of its own",
        "… cannot be followed": "cannot be followed",
        "The standby in … cannot be opened": "cannot be opened",
    },
    "tests/unit/standby/test_copy.py": {
        "… has another store than": "has another store than",
        "The mark of the standby": "is damaged: remove the directory and start the standby anew",
        "… is shorter than … says": "says: remove the directory and start anew",
        "… cannot be changed": "cannot be changed",
        "… does not give": "does not give x",
        "… gave … bytes": "gave 5 bytes",
        "… of … changes just now": "changes just now",
        "The copied log cannot be read": "The copied log cannot be read",
        "The standby cannot follow the log": "The standby cannot follow the log",
    },
    "tests/cluster/test_nodes.py": {
        "… has a store of its own, and the log": "has a store of its own",
        "… is of a node of a cluster": "is of a node of a cluster",
    },
    "tests/cluster/test_operators.py": {
        "The node in … does not own the log": "back up on the node that does",
        "The node … does not own the log of its cluster and runs": "and runs no tasks: ask the one that does",
    },
    "tests/unit/cluster/test_promises.py": {
        "The log of the cluster, …, is not safe": "is not safe in its bucket",
    },
    "tests/unit/cluster/test_refusals.py": {
        "The node of a cluster in … starts": "starts, or changes its role, and has no store open",
        "Nodes that could not be compared": "Nodes that could not be compared: ",
        "Nodes that differ": "Nodes that differ or are damaged: ",
        "No node owns the log at present": "No node owns the log at present",
        "The node cannot follow the log (": "The node cannot follow the log (",
        "… cannot be replaced": "cannot be replaced",
        "… cannot be removed": "cannot be removed",
        "… cannot be read without control.key and the root": "and the root key: start the node in",
        "… is of another version of Orcas": "is of another version of Orcas",
        "… has no mark in the log yet": "has no mark in the log yet",
        "… has too little of the log": "has too little of the log",
        "This node cannot follow the log": "cannot follow the log of its cluster",
        "This node cannot take the log": "cannot take the log of its cluster",
        "This node does not own the log": "does not own the log of its cluster any more",
    },
    "tests/unit/tables/test_commands.py": {
        "There is no table": "There is no table",
        "The metadata file": "is missing",
        "The snapshot … is no ancestor": "--force sets it anyway",
        "… has no snapshot": "has no snapshot 3",
        "… has no snapshot from": "has no snapshot from",
    },
    "tests/unit/tables/test_refusals.py": {
        "The bucket … of ORCAS_WAREHOUSE": "cannot be a warehouse (",
        "The store is open for reading": "serve it without --salvage",
    },
    "tests/unit/tables/test_without.py": {"The catalog of tables needs": "pip install 'orcas-s3[tables]'"},
    "tests/tools/test_admission.py": {"… cannot be read by this user": "as root, run `chown -R "},
    "tests/tools/test_status.py": {
        "The server is not well (…)": "is not well (",
        "The server at … was told to stop": "was told to stop",
    },
    "tests/tools/objects/test_copies.py": {
        "… cannot be read (…)": "do not match",
        "… cannot be written (…)": "cannot be written (",
    },
    "tests/tools/objects/test_probe.py": {
        "Checks that could not be told": "Checks that could not be told: ",
        "Objects that could not be removed": "Objects that could not be removed: ",
    },
    "tests/tools/objects/test_lists.py": {"The bucket … keeps versions": "add --all-versions"},
    "tests/tools/imports/test_interruptions.py": {"… broke off in the middle": "broke off in the middle of an object"},
    "tests/tools/imports/test_minio_moves.py": {
        "The bucket … acknowledges what": "acknowledges what is not durable yet",
    },
    "tests/tools/imports/test_versions.py": {"The server at … does not list": "does not list the versions of"},
    "tests/tools/test_identities.py": {
        "… is not valid": "check it with --kind trust",
        "The … cannot be deleted": "first): add --force",
    },
    "tests/tools/test_keyring.py": {
        "Both copies of the keyring": "Both copies of the keyring",
        "The keyring in … is of generation": "of generation 2, older than",
    },
    "tests/unit/commands/test_config.py": {"… sets …, which only": "only a variable can: set ORCAS_MASTER_KEY_FILE"},
    "tests/unit/commands/test_failures.py": {
        "The process that requested a server": "The process that requested a server",
        "Windows is": "Windows is not supported",
    },
    "tests/unit/control/test_audit.py": {
        "The audit log cannot be": "The audit log cannot be written: No space left",
        "The audit log ends": "ends with line 2 and had 3",
        "The audit log is damaged": "which has number 3 and not 2",
    },
    "tests/unit/control/test_control.py": {
        "The secret of access key": "access key other cannot be decrypted",
        "The identities of the store": "its keyring is not open: set ORCAS_MASTER_KEY",
        "The root key in … is sealed": "keyring lacks",
    },
    "tests/unit/events/test_broker_senders.py": {"The target … is of the type": "pip install 'orcas-s3"},
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with no settings, no keys and no store."""
    variables = {name: value for name, value in child_environment().items() if not name.startswith("AWS_")}
    return variables | {"XDG_CONFIG_HOME": str(tmp_path / "none"), "XDG_DATA_HOME": str(tmp_path / "none")}


def rows(code: int, sentence: str) -> set[Row]:
    """The rows of a sentence. A mistake in a setting has another code on the command line."""
    return {row for row in ROWS if row.code in {code, 78 if code == 2 else code} and row.has(sentence)}


@pytest.mark.full
def test_every_message_is_listed_and_provoked(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    provoked = set()
    # All in one test, so that the stores are made once.
    with broken(tmp_path) as places:
        for line, code, words in FAILURES:
            found = rows(code, sentence := check(line, code, words, places, tmp_path, environ))
            # What a server refuses, it explains itself.
            assert found or code == 1, (line, sentence)
            provoked |= found
        environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        for line, code, words, name, value in FAULTS:
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, closed=False))
                patch.setattr("orcas.control.files.address.running_at", lambda path: Address(f"http://{path}", "r"))
                if value is ABSENT:
                    patch.delattr(name)
                else:
                    patch.setattr(name, value)
                sentence = check(line, code, words, places, tmp_path, environ)
            assert rows(code, sentence), (line, sentence)
            provoked |= rows(code, sentence)
        monkeypatch.setattr("orcas.serving.serve.start_front", raising(FULL))
        for code, call in library(places | {"new": str(tmp_path / "new")}):
            with pytest.raises(OrcasError) as failure:
                call()
            assert failure.value.exit_code == code
            assert rows(code, str(failure.value).partition("\n")[0]), failure.value
            provoked |= rows(code, str(failure.value).partition("\n")[0])
    begins = tuple(begin for known in ELSEWHERE.values() for begin in known)
    others = {row for row in ROWS if row.said.startswith(begins)}
    assert set(ROWS) - provoked - others == set()


@pytest.mark.parametrize("path", ELSEWHERE)
def test_the_other_tests_have_the_words(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert all(words in text for words in ELSEWHERE[path].values())


def test_every_message_of_the_code_is_listed() -> None:
    known = {(row.code, sentence) for row in ROWS for sentence in row.sentences}
    assert raised() - known == set(), "docs/messages.md lacks them, or has another code or next step"
    assert len({(row.code, row.said, row.step) for row in ROWS}) == len(ROWS)


def test_every_message_says_what_to_do() -> None:
    """What the page adds to a message is not enough, unless it says what is valid, or has the words of the engine."""
    sentences = raised()
    whole = {(row.code, row.said) for row in ROWS if (row.code, f"{row.said}.") in sentences}
    for code, said in whole:
        assert (code in {2, 78} and re.search("must|needs|is not|which no|See", said)) or said.endswith("…"), said


def test_the_reasons_of_the_system_are_listed() -> None:
    rows = re.findall(r"^\| ((?:`E\w+`(?:, )?)+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    said = {getattr(errno, name): advice for names, advice in rows for name in re.findall(r"E\w+", names)}
    assert said == errors._ADVICE
