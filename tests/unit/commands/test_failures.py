"""Every command in every failure it can have: a documented exit code, one sentence on stderr, nothing on stdout.

With --json, the sentence is in a JSON object.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from tests.fixtures.commands import ran

import orcas
from orcas.cli.commands import app
from orcas.settings.config import child_environment

ROOT = Path(__file__).parents[3]

# Command line, exit code, and words of the sentence. `{store}` is a stopped store with the bucket `photos`, `{url}` a
# server with other keys, `{new}` a path that does not exist, `{full}` a directory of other files.
FAILURES = [
    ("", 2, "a command is missing"),
    ("sta", 2, "No such command 'sta'"),
    ("serve --prot 1", 2, "No such option: --prot"),
    ("serve --port abc", 2, "--port must be a whole number, not 'abc'"),
    ("serve --port", 2, "requires an argument"),
    ("serve --domain a..b", 2, "--domain must be a list of host names"),
    ("serve --dev --host 0.0.0.0", 2, "loopback only"),
    ("serve --memory --data {new}", 2, "cannot be used together"),
    ("serve --memory --durability sync", 2, "only be unsafe-none"),
    ("serve --data {full}", 69, "holds other files, such as letter.txt"),
    ("serve --data /dev/null/store", 69, "cannot be created"),
    ("serve --data {new} --host no-such-host.invalid", 69, "cannot listen on"),
    ("serve --data {new} --port {busy}", 69, "cannot listen on"),
    ("serve --data {unreadable} --port 0", 69, "is damaged: restore it"),
    ("run", 2, "A command is missing"),
    ("run --bucket b -- true", 1, "refused: The specified bucket is not valid."),
    ("demo", 69, "no store"),
    ("demo No_Bucket --data {store}", 1, "is not valid"),
    ("demo photos --data {store}", 1, "is not empty"),
    ("env", 69, "no store"),
    ("env --data {new}", 69, "`orcas serve --data {new}` creates one"),
    ("env --data {new} --wait 0.1", 69, "within 0.1 s."),
    ("env --wait soon", 2, "--wait"),
    ("env --port abc", 2, "--port must be"),
    ("env --memory --data {new}", 2, "cannot be used together"),
    ("env --memory --port 1", 69, "No server of this user"),
    ("env --data {unreadable}", 69, "is damaged"),
    ("stats", 69, "no store"),
    ("stats --json", 69, "no store"),
    ("stats --json --bukcet x", 2, "No such option: --bukcet"),
    ("stats --json --endpoint http://127.0.0.1:1", 78, "set AWS_ACCESS_KEY_ID"),
    ("stats --data {store} --bucket absent", 1, "no bucket absent"),
    ("stats --data {store} --bucket absent --json", 1, "no bucket absent"),
    ("stats --endpoint ftp://nowhere", 2, "--endpoint must be"),
    ("stats --endpoint http://127.0.0.1:nowhere", 2, "--endpoint must be"),
    ("stats --endpoint http://127.0.0.1:1", 78, "set AWS_ACCESS_KEY_ID"),
    ("stats --data {store} --endpoint http://127.0.0.1:1", 69, "cannot be reached"),
    ("stats --data {store} --endpoint {url}", 1, "refused the key of the store in"),
    ("top", 69, "No server has the store"),
    ("top --interval 0", 2, "--interval"),
    ("top --endpoint ftp://nowhere", 2, "--endpoint must be"),
    ("top --endpoint http://127.0.0.1:1", 69, "cannot be reached"),
    ("gc --data {new}", 69, "no store"),
    ("gc --data {store} --endpoint {url}", 1, "refused the key"),
    ("compact --data {new}", 69, "no store"),
    ("compact --data {store} --endpoint {url}", 1, "refused the key"),
    ("lifecycle --data {new}", 69, "no store"),
    ("lifecycle --data {store} --endpoint {url}", 1, "refused the key"),
    ("quota list --data {new}", 69, "no store"),
    ("quota set photos --data {store}", 2, "Give --bytes, --objects or both"),
    ("quota set photos --bytes much --data {store}", 2, "must be a number of bytes"),
    ("quota set nowhere --objects 1 --data {store}", 1, "does not exist"),
    ("quota set me --owner --objects 1 --data {store}", 2, "64 hexadecimal digits"),
    ("quota remove me --owner --data {store}", 2, "64 hexadecimal digits"),
    ("usage --since soon --data {store}", 2, "must be a day, as YYYY-MM-DD"),
    ("usage --until 20260101 --data {store}", 2, "--until must be a day"),
    ("settings show photos --data {new}", 69, "no store"),
    ("settings show nowhere --data {store}", 1, "no bucket nowhere"),
    ("settings set photos --data {store}", 2, "Give at least one setting"),
    ("settings set photos --chunking é --data {store}", 2, "printable ASCII"),
    ("settings set photos --chunk-size 1 --data {store}", 1, "cannot be changed"),
    ("settings clear nowhere --data {store}", 1, "no bucket nowhere"),
    ("settings show photos --data {store} --endpoint {url}", 1, "refused the key"),
    ("usage --data {new}", 69, "no store"),
    ("usage --csv --json --data {store}", 2, "either --csv or --json"),
    ("usage --by colour --data {store}", 1, "by must be"),
    ("snapshot create photos s --data {new}", 69, "no store"),
    ("tasks list --data {new}", 69, "no store"),
    ("tasks run none --data {store}", 1, "no task of this name"),
    ("events targets --data {new}", 69, "no store"),
    ("events dead hook --data {store}", 1, "no target of this name"),
    ("snapshot list nowhere --data {store}", 1, "There is no bucket nowhere."),
    ("fork photos copy --data {new}", 69, "no store"),
    ("fork photos@ copy --data {new}", 2, "names no snapshot"),
    ("fork a/b copy --data {store}", 2, "no slash"),
    ("fork nowhere copy --data {store} --json", 1, "There is no bucket nowhere."),
    ("fork @s copy --data {new}", 2, "names no bucket"),
    ("fork '' copy --data {new}", 2, "A name is empty"),
    ("snapshot list '' --data {new}", 2, "A name is empty"),
    ("snapshot delete photos '' --data {new}", 2, "A name is empty"),
    ("fork photos@s copy --data {store}", 1, "no snapshot of this name"),
    ("fork photos@s copy --data {store} --json", 1, "no snapshot of this name"),
    ("fork photos t1 --data {store}", 1, "3 to 63 lower-case letters, digits, periods and hyphens"),
    (f"fork photos {'t' * 64} --data {{store}}", 1, "3 to 63 lower-case letters"),
    (f"snapshot create photos {'s' * 64} --data {{store}}", 1, "1 to 63 letters"),
    ("settings show No_Bucket --data {store}", 1, "no bucket No_Bucket"),
    ("move photos/a/ photos/b/ --data {new}", 69, "no store"),
    ("move photos/a/ photos/a/b/ --data {store}", 1, "begins with"),
    ("key list --data {new}", 69, "no store"),
    ("key create k --data {store}", 1, "ORCAS_MASTER_KEY"),
    ("fsck --data {new}", 69, "no store"),
    ("fsck --threads 0", 2, "--threads"),
    ("fsck --repair --endpoint http://127.0.0.1:1", 2, "--data, not --endpoint"),
    ("fsck --data {damaged} --json", 1, "1 object cannot be read in full"),
    ("scrub --data {new}", 69, "no store"),
    ("inspect --data {new}", 69, "no store"),
    ("inspect index --data {store}", 2, "no part of a store"),
    ("inspect log --from x", 2, "--from"),
    ("inspect log --from 7 --to 3 --data {store}", 2, "nothing lies between"),
    ("inspect packs --bucket photos --data {store}", 2, "neither buckets nor keys"),
    ("scrub --now --data {damaged} --json", 1, "`orcas restore`"),
    ("backup", 2, "Missing argument 'TARGET'"),
    ("backup {new} --data {new}2", 69, "no store"),
    ("backup {full} --data {store}", 69, "letter.txt, which is not part of a backup"),
    ("backup {store}/backup --data {store}", 2, "is inside the store"),
    ("backup s3:// --data {store}", 2, "names no bucket"),
    ("backup {new} --target-endpoint http://127.0.0.1:1 --data {store}", 2, "--target-endpoint needs"),
    ("restore {new}", 2, "Missing option '--data'"),
    ("restore {new} --data {new}2", 69, "no backup"),
    ("restore {full} --data {new}", 69, "no backup"),
    ("export {new} --data {new}2", 69, "no store"),
    ("export {new} --data {store} --bucket nope", 1, "There is no bucket nope."),
    ("export {new} --data {store} --bucket photos --prefix 1999/", 1, "No key of photos begins with 1999/."),
    ("export {new} --data {store} --prefix 1999/", 2, "--prefix needs --bucket"),
    ("export {full} --data {store}", 69, "not empty"),
    ("bench --workload batchwrite", 2, "did you mean batch-write"),
    ("bench --connections 0", 2, "connections must be a whole number"),
    ("bench https://127.0.0.1:1", 2, "does not support TLS"),
    ("bench --set keys", 2, "--set needs FIELD=VALUE"),
    ("bench http://127.0.0.1:1", 78, "There is no key"),
    ("bench http://127.0.0.1:1 --access-key abc --secret-key abcdefgh", 69, "cannot be reached"),
    ("bench {url} --access-key abc --secret-key abcdefgh --count 1", 1, "refused to create a bucket"),
    ("account create lab --data {new}", 69, "no store"),
    ("account create 'a b' --data {store}", 1, "accountName"),
    ("user show nobody --data {store}", 1, "nobody cannot be found"),
    ("user create 'a b' --data {store}", 1, "userName"),
    ("user list --account 1 --data {store}", 1, "account"),
    ("group add none nobody --data {store}", 1, "cannot be found"),
    ("role show none --data {store} --json", 1, "cannot be found"),
    ("access-key create nobody --data {store}", 1, "cannot be found"),
    ("access-key list x --data {store} --endpoint {url}", 1, "refused the key"),
    ("policy check {new}", 78, "cannot be read: No such file or directory."),
    ("policy show none --data {store}", 1, "none"),
    ("version --no", 2, "No such option"),
    ("config", 2, "a command is missing"),
    ("config show prot", 2, "did you mean port?"),
    ("config show --no", 2, "No such option"),
]
# The codes in JSON by exit codes. A server's refusal, with exit code 1, has the code that the server gave.
CODES = {2: "InvalidUsage", 69: "Unavailable", 78: "InvalidConfiguration"}
REFUSED = {"snapshot": "NoSuchSnapshot", "no bucket": "NoSuchBucket", "cannot be found": "NoSuchEntity"}
NEEDS_STORES = re.compile(r"\{(store|damaged|unreadable|url)\}")
# The place in each command that raises an unexpected exception.
INSIDE = {
    "serve": "orcas.cli.app.resolve",
    "env": "orcas.cli.server.env.resolve",
    "bench": "orcas.bench.workload.built_in",
    "run -- true": "orcas.server.Server._wait",
    "version": "orcas.version.version",
    "config show": "orcas.cli.commands.resolve",
    **dict.fromkeys(
        ("stats", "demo", "top", "gc", "compact", "lifecycle", "fsck", "scrub", "inspect"),
        "orcas.cli.store.upkeep.resolve",
    ),
    **dict.fromkeys(
        (
            "snapshot list x",
            "fork x y",
            "move x/ y/",
            "key list",
            "tasks list",
            "events targets",
            "usage",
            "quota list",
            "settings show x",
            "account list",
            "user list",
            "group list",
            "role list",
            "access-key list x",
            "policy list",
        ),
        "orcas.cli.store.upkeep.resolve",
    ),
    **dict.fromkeys(("backup x", "restore x --data y", "export x"), "orcas.cli.store.upkeep.resolve"),
}


class PanicError(BaseException):
    """Like a panic of Rust, this is not an Exception."""


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The stores, servers and paths that command lines name."""
    with orcas.Server(tmp_path / "store") as server:
        client = server.client()
        client.create_bucket(Bucket="photos")
        client.put_object(Bucket="photos", Key="one", Body=os.urandom(1 << 20))
        client.close()
    shutil.copytree(tmp_path / "store", tmp_path / "damaged")
    for pack in (tmp_path / "damaged" / "chunks").iterdir():
        content = bytearray(pack.read_bytes())
        content[len(content) // 2] ^= 1
        pack.write_bytes(content)
    shutil.copytree(tmp_path / "store", tmp_path / "unreadable")
    (tmp_path / "unreadable" / "root.json").write_text("{")
    (tmp_path / "unreadable" / "root.json.copy").unlink()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with orcas.Server(memory=True) as other:
        places = {name: str(tmp_path / name) for name in ("store", "damaged", "unreadable", "full")}
        yield places | {"url": other.endpoint}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with no settings, no keys and no store."""
    variables = {name: value for name, value in child_environment().items() if not name.startswith("AWS_")}
    return variables | {"XDG_CONFIG_HOME": str(tmp_path / "none"), "XDG_DATA_HOME": str(tmp_path / "none")}


def check(line: str, code: int, words: str, places: dict[str, str], directory: Path, environ: dict[str, str]) -> None:
    new = directory / "new"
    arguments = shlex.split(line.format(new=new, **places))
    done = ran(environ, str(directory), *arguments)
    assert done.returncode == code, (line, done.stderr)
    sentences = [entry for entry in done.stderr.splitlines() if entry.startswith("orcas: ")]
    if "--json" in arguments:
        assert sentences == []
        error = json.loads(done.stderr.splitlines()[-1])["error"]
        assert set(error) == {"code", "message"}
        assert error["code"] == CODES.get(
            code, next((known for part, known in REFUSED.items() if part in words), "Failed")
        )
        sentences = [error["message"]]
    assert len(sentences) == 1, (line, done.stderr)
    assert words.replace("{new}", str(new)) in sentences[0]
    assert sentences[0].endswith((".", "?"))
    if arguments and arguments[0] != "config" and "--json" not in arguments:
        assert done.stdout == "", line
    if arguments and arguments[0] not in {"serve", "bench"}:
        assert done.stderr.count("\n") == 1, (line, done.stderr)
    # A command that fails at its start leaves nothing behind.
    assert not new.exists() or arguments[0] == "serve", line


SIMPLE = [failure for failure in FAILURES if not NEEDS_STORES.search(failure[0])]


@pytest.mark.parametrize(("line", "code", "words"), SIMPLE, ids=[line for line, _, _ in SIMPLE])
def test_a_failure_is_a_sentence(line: str, code: int, words: str, tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        places = {"full": str(tmp_path / "full"), "busy": str(busy.getsockname()[1])}
        check(line, code, words, places, tmp_path, environ)


def test_failures_over_a_store_are_sentences(stores: dict[str, str], tmp_path: Path, environ: dict[str, str]) -> None:
    # All in one test, so that the stores are made once.
    for line, code, words in FAILURES:
        if NEEDS_STORES.search(line):
            check(line, code, words, stores, tmp_path, environ)


def test_every_command_is_driven_into_failures() -> None:
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert {line.split()[0] for line, _, _ in FAILURES if line} - {"sta"} == known
    assert {line.split()[0] for line in INSIDE} == known
    documented = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8").split("## Exit codes")[1]
    for code in {code for _, code, _ in FAILURES} | {130, 141}:
        assert f"| {code} |" in documented


@pytest.mark.parametrize("line", INSIDE)
@pytest.mark.parametrize("kind", [RuntimeError, PanicError, OSError, KeyboardInterrupt])
def test_a_defect_is_a_sentence(
    line: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind(28, "No room\nat all", "/some/file") if kind is OSError else kind("secret_key=hidden, boom")

    monkeypatch.setattr(INSIDE[line], fail)
    done = ran(environ, str(tmp_path), *line.split())
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    if kind is KeyboardInterrupt:
        assert (done.returncode, done.stderr) == (130, "orcas: interrupted.\n")
        return
    assert done.returncode == 1
    assert done.stderr.startswith(f"orcas: {line.split()[0]} failed")
    said = "/some/file: No room at all." if kind is OSError else f"{kind.__name__}: secret_key=***, boom."
    assert said in done.stderr
    assert "ORCAS_LOG_LEVEL=debug" in done.stderr
    assert "hidden" not in done.stderr


def test_the_traceback_is_for_those_who_debug(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], tmp_path: Path
) -> None:
    monkeypatch.setattr("orcas.version.version", lambda _: 1 / 0)
    done = ran(environ | {"ORCAS_LOG_LEVEL": "debug"}, str(tmp_path), "version")
    assert done.returncode == 1
    assert done.stderr.startswith("orcas: version failed unexpectedly: ZeroDivisionError: division by zero.")
    assert "Traceback" in done.stderr


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    def shell(line: str) -> tuple[int, str]:
        script = f'orcas() {{ "{sys.executable}" -m orcas "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=child_environment(),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    code, said = shell("orcas version > /dev/full")
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("orcas: version failed: No space left on device.")
    # The descriptor of a closed stream must not be reused for a file of a store.
    assert shell("orcas version >&-") == (0, "")
    assert shell("orcas version <&- >&- 2>&-") == (0, "")
    # A reader that has closed the pipe gets no message.
    assert shell("{ sleep 0.2; orcas config show; } | true; exit ${PIPESTATUS[0]}") == (141, "")


def test_a_child_without_a_parent_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orcas.cli.server.child"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == "orcas: The process that requested a server has ended.\n"
    done = subprocess.run(
        [sys.executable, "-m", "orcas.cli.server.child"],
        input="nonsense\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("orcas: the server failed unexpectedly: JSONDecodeError")
