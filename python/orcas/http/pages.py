"""The page for a person who opens the server's address in a browser: it says what this is and how to use it.

It is only the body of a refusal for a missing signature, with the status and headers of that refusal, so S3 clients never
get it. The page loads nothing, and contains nothing of the request or the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 3em auto; max-width: 46em; padding: 0 1em; color: #222 }
pre, code { font: 14px/1.5 ui-monospace, monospace; background: #f3f4f6; border-radius: 4px }
pre { padding: .8em 1em; overflow-x: auto } code { padding: .1em .3em } pre code { padding: 0 }
h1 { font-size: 1.6em } h2 { font-size: 1.15em; margin-top: 2em } h3 { font-size: 1em; margin-bottom: 0 }
table { border-collapse: collapse } td, th { padding: .2em 1em .2em 0; text-align: left; vertical-align: top }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #ddd } pre, code { background: #24272d }
}
"""
# The page may load, run and frame nothing, whatever it contains.
POLICY: Final = (
    b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_WELCOME: Final = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Orcas</title><style>{STYLE}</style></head><body>
<h1>Orcas</h1>
<p>This is an S3 server, and it is running. It answers requests signed with an access key. Browsers do not sign.</p>
<!-- console -->
<h2>From a shell on the server's machine</h2>
<pre><code>eval "$(orcas env --data DIR)"
aws s3 mb s3://photos
aws s3 ls</code></pre>
<p><code>DIR</code> is the directory that <code>orcas serve --data DIR</code> named. Without <code>--data</code>, leave it
out here as well; with <code>--memory</code>, write <code>orcas env --memory</code>. The log of the server names the whole
command at each start.</p>
<h2>From Python</h2>
<pre><code>import boto3

s3 = boto3.client("s3")  # endpoint and keys from the environment, as above
print(s3.list_buckets()["Buckets"])</code></pre>
<p><code>orcas --help</code> lists the other commands; <a href="/_orcas/docs">a page</a> describes the server's own
routes. <code>aws s3 presign s3://BUCKET/KEY</code> creates a link to an
object that works in a browser.</p>
</body></html>
""".encode()
_PLACE: Final = b"<!-- console -->\n"
_CONSOLE: Final = (
    b'<p><strong><a href="/_orcas/console/">Open the console</a></strong> to see, upload and share files in the browser.'
    b"</p>\n"
)
_REPLACED: Final = (b"content-type", b"content-length")

Headers = list[tuple[bytes, bytes]]


def is_browser(headers: Headers) -> bool:
    """Whether these headers are a browser's: S3 clients sign, and do not accept HTML."""
    html = False
    for name, value in headers:
        if name == b"authorization":
            return False
        html = html or (name == b"accept" and b"text/html" in value)
    return html


def welcome(refusal: Iterable[tuple[bytes, bytes]], *, console: bool) -> tuple[Headers, bytes]:
    """Headers and body of the page. `refusal`: the headers of the response that it replaces.

    `console`: whether the server has a web console.
    """
    page = _WELCOME.replace(_PLACE, _CONSOLE if console else b"")
    headers = [(name, value) for name, value in refusal if name not in _REPLACED]
    headers += [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"%d" % len(page)),
        (b"content-security-policy", POLICY),
        (b"vary", b"accept"),
    ]
    return headers, page
