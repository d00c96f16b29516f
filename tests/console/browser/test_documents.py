"""What pages of the documents do in a browser."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "browser-upload.md"


@contextlib.contextmanager
def site() -> Iterator[str]:
    """The origin of another site, whose page has a field for a file."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Site</title><input type=file>")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_page_uploads_by_fetch_where_the_bucket_allows_its_site(
    chromium: BrowserContext, target: Target, s3: Any, bucket: str, tmp_path: Path, allowed: bool
) -> None:
    (script,) = re.findall(r"^```js\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "a.jpg").write_bytes(b"a picture")
    signing = target.server.client(config=Config(signature_version="s3v4"))
    wanted = {"Bucket": bucket, "Key": "uploads/a.jpg", "ContentType": "image/jpeg"}
    address = signing.generate_presigned_url("put_object", Params=wanted, ExpiresIn=600)
    with site() as origin, contextlib.closing(chromium.new_page()) as page:
        rule = {"AllowedOrigins": [origin], "AllowedMethods": ["PUT"], "AllowedHeaders": ["*"]}
        if allowed:
            s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
        page.goto(origin)
        page.locator("input[type=file]").set_input_files(tmp_path / "a.jpg")
        sent = f"async (address) => {{ try {{ {script} }} catch (failed) {{ return failed.name }} return 'done' }}"
        assert page.evaluate(sent, address) == ("done" if allowed else "TypeError")
    if allowed:
        found = s3.get_object(Bucket=bucket, Key="uploads/a.jpg")
        assert (found["ContentType"], found["Body"].read()) == ("image/jpeg", b"a picture")
    else:
        assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
