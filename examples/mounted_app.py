"""S3 in your own application: Orcas mounted in a FastAPI application next to your own routes.

Run it with `python mounted_app.py`. It starts the application on a free port, sends requests to it, and stops it. To
keep it running, use `uvicorn mounted_app:app`. docs/embedding.md describes the differences from `orcas serve`.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

import boto3
import httpx
import uvicorn
from botocore.config import Config
from fastapi import FastAPI

import orcas

KEYS = {"root_access_key": "example", "root_secret_key": "only-for-examples"}

# With arguments, ORCAS_* variables and orcas.toml are ignored. data="some/directory" keeps the objects.
s3_app = orcas.create_app(memory=True, **KEYS)
# Starlette only runs the lifespan of the outermost application. This one opens the store.
app = FastAPI(lifespan=s3_app.lifespan)


@app.get("/hello")
def hello() -> dict[str, str]:
    """A route of your own."""
    return {"message": "hello from my own application"}


app.mount("/s3", s3_app)


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Serve `app` in a thread, and yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise SystemExit("The application did not start; its log says why.")
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def main() -> None:
    with running() as url:
        with httpx.Client(base_url=url, trust_env=False) as client:
            print("own route:", client.get("/hello").json()["message"])
            print("store:", client.get("/s3/_orcas/health/ready").json()["status"])

        s3 = boto3.client(
            "s3",
            # With the slash at the end: Starlette redirects requests for /s3, which boto3 does not follow.
            endpoint_url=f"{url}/s3/",
            region_name="us-east-1",
            aws_access_key_id=KEYS["root_access_key"],
            aws_secret_access_key=KEYS["root_secret_key"],
            config=Config(proxies={}),  # the server is on this machine
        )
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="summer/1.txt", Body=b"sand")
        print("buckets:", [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]])
        print("object:", s3.get_object(Bucket="photos", Key="summer/1.txt")["Body"].read().decode())


if __name__ == "__main__":
    main()
