"""Presigned URLs: let somebody without keys upload and download one object for ten minutes.

Run it with `python presigned.py`. Whoever has the keys creates the URLs, without asking the server. Any HTTP client can
use them: `curl -T file URL`, `curl URL`, a browser, or urllib as here. The server runs in memory.
"""

import urllib.error
import urllib.request

import orcas

# Connect to the server on this machine directly, whatever HTTP_PROXY says.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(method: str, url: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Send a request without credentials. Returns status and body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=named)
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def main() -> None:
    with orcas.Server(memory=True) as server:
        s3 = server.client()  # signs version 4
        s3.create_bucket(Bucket="inbox")
        place = {"Bucket": "inbox", "Key": "from-a-guest.txt"}

        upload = s3.generate_presigned_url("put_object", Params=place | {"ContentType": "text/plain"}, ExpiresIn=600)
        print("upload:", ask("PUT", upload, b"Greetings from outside.", content_type="text/plain")[0])
        # The content type is signed, so no other is accepted.
        print("upload as another type:", ask("PUT", upload, b"<script>", content_type="text/html")[0])

        download = s3.generate_presigned_url(
            "get_object",
            Params=place | {"ResponseContentDisposition": 'attachment; filename="greeting.txt"'},
            ExpiresIn=600,
        )
        status, body = ask("GET", download)
        print("download:", status, body.decode())
        print("with another key in the URL:", ask("GET", download.replace("guest", "others"))[0])
        print("without a signature:", ask("GET", download.partition("?")[0])[0])


if __name__ == "__main__":
    main()
