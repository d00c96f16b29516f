"""Makes the pictures of docs/console.md and README.md: `python docs/images/console.py`. Needs the extra console-test."""

from __future__ import annotations

from pathlib import Path

import orcas
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
TEXT = b"Quarter,Region,Revenue\nQ1,North,1204\nQ1,South,987\nQ2,North,1377\nQ2,South,1012\n"
FILES = {
    "reports/2026/revenue.csv": TEXT,
    "reports/2026/summary.txt": b"Revenue grew in both regions.\n",
    "reports/2026/charts/north.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    "reports/2026/minutes (final).md": b"# Minutes\n" * 40,
    "reports/2026/backup.tar": bytes(3 << 20),
}


def main() -> None:
    """One picture of a folder, one of an object."""
    with orcas.Server(memory=True) as server, sync_playwright() as playwright:
        s3 = server.client()
        s3.create_bucket(Bucket="company")
        s3.put_bucket_versioning(Bucket="company", VersioningConfiguration={"Status": "Enabled"})
        for key, body in FILES.items():
            s3.put_object(Bucket="company", Key=key, Body=body)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 760}, color_scheme="light")
        base = f"{server.endpoint}/_orcas/console"
        page.goto(f"{base}/sign-in")
        page.get_by_label("Access key").fill(server.access_key)
        page.get_by_label("Secret key").fill(server.secret_key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{base}/")
        for name, path in (
            ("console-objects", "/b/company?prefix=reports/2026/"),
            ("console-object", "/b/company/object?key=reports/2026/revenue.csv"),
        ):
            page.goto(base + path)
            page.screenshot(path=HERE / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
