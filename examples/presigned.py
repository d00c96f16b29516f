"""Presigned URLs: somebody without keys uploads one object and downloads one, for ten minutes, and nothing else.

Run it with `python presigned.py`. The server, in memory, signs nothing: whoever has the keys makes the URLs, and any HTTP
client uses them (`curl -T file URL`, `curl URL`, a browser). Here it is urllib of the standard library.
"""

import urllib.error
import urllib.request

import orcas

# A server on this machine is reached directly, whatever HTTP_PROXY says.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(method: str, url: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body of a plain HTTP request without credentials."""
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
        # What was signed has to be sent as it was signed.
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
