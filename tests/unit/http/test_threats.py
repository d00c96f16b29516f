"""What the threat model of SECURITY.md says, as far as no test of a feature does."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from botocore.config import Config
from tests.fixtures.wire import Signer

import orcas
from orcas.settings.config import child_environment

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def test_root_reaches_no_file_outside_the_store(tmp_path: Path) -> None:
    """Keys are names, not paths."""
    secret = tmp_path / "secret"
    secret.write_text("outside")
    with orcas.Server(tmp_path / "store") as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", "/bucket")).status == 200
        before = {path.name: path.is_dir() or path.read_bytes() for path in tmp_path.iterdir()}
        for key in (
            "../secret",
            "../../secret",
            "/" + str(secret),
            f"..{secret}",
            "a/../../../secret",
            "log/../../secret",
        ):
            spelled = key.replace("/", "%2F")
            assert signer.roundtrip(signer.request("GET", f"/bucket/{spelled}")).status == 404, key
            put = signer.roundtrip(signer.request("PUT", f"/bucket/{spelled}", body=b"x" * 3_000_000))
            assert put.status in (200, 400), put
            got = signer.roundtrip(signer.request("GET", f"/bucket/{spelled}"))
            assert (got.status == 200) == (put.status == 200), key
            assert b"outside" not in got.body
        for bucket in ("..", "%2e%2e", "..%2Fsecret"):
            answer = signer.roundtrip(signer.request("PUT", f"/{bucket}"))
            assert answer.status in (400, 403, 404), answer
        assert {path.name: path.is_dir() or path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_signed_request_can_be_repeated(tmp_path: Path) -> None:
    """For 15 minutes, as on S3: whoever sees it can send it again, and no other one."""
    with orcas.Server(tmp_path / "store") as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", "/bucket")).status == 200
        put = signer.request("PUT", "/bucket/k", body=b"first")
        for _ in range(2):
            assert signer.roundtrip(put).status == 200
            assert signer.roundtrip(signer.request("PUT", "/bucket/k", body=b"second")).status == 200
        assert signer.roundtrip(put.replace(b"first", b"other")).status in (400, 403)
        assert signer.roundtrip(put.replace(b"/bucket/k ", b"/bucket/l ")).status == 403
        assert signer.roundtrip(signer.request("GET", "/bucket/k")).body == b"second"


def test_a_url_of_version_two_covers_no_prefix_and_one_of_version_four_does(tmp_path: Path) -> None:
    with orcas.Server(tmp_path / "store") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        for key in ("a/1", "b/2"):
            s3.put_object(Bucket="bucket", Key=key, Body=b"x")
        statuses = []
        for version in ("s3", "s3v4"):
            signer = server.client(config=Config(signature_version=version))
            url = signer.generate_presigned_url("list_objects", Params={"Bucket": "bucket", "Prefix": "a/"})
            changed = url.replace("prefix=a", "prefix=b")
            assert changed != url
            try:
                with urllib.request.urlopen(changed) as answer:
                    assert b"b/2" in answer.read()
                    statuses.append(answer.status)
            except urllib.error.HTTPError as refusal:
                statuses.append(refusal.code)
        assert statuses == [200, 403]


def test_a_master_key_from_a_file_is_not_in_what_others_see_of_the_process(tmp_path: Path) -> None:
    key, data = tmp_path / "key", tmp_path / "store"
    key.write_text(KEY)
    key.chmod(0o600)
    arguments = [sys.executable, "-m", "orcas", "serve", "--data", data, "--port", "0"]
    environment = child_environment() | {"ORCAS_MASTER_KEY_FILE": str(key)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith(b"orcas ready ")
            assert (data / "keyring").exists()
            process = Path(f"/proc/{server.pid}")
            if process.exists():
                assert KEY.encode() not in (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        finally:
            server.terminate()
