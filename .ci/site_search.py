"""Asks the built site what users ask, in their words: `.ci/run site` runs this last.

Each question has to find a page that answers it among the first three that the search of the site shows; an address
stands for all that begin with it. The search is the one that runs in the browser, in Node.js.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FIRST = 3
QUESTIONS = {
    "migrate from minio": "docs/from-minio",
    "replace minio": "docs/instead-of-minio",
    "minio docker compose": "docs/instead-of-minio",
    "mc admin user add": "docs/instead-of-minio",
    "testcontainers": "docs/instead-of-minio",
    "reset between tests": "docs/testing",
    "freezegun": "docs/testing",
    "freeze time": "docs/testing",
    "mock s3 in pytest": "docs/testing",
    "moto alternative": "docs/from-moto",
    "localstack alternative": "docs/from-localstack",
    "localstack docker compose": "docs/instead-of-localstack",
    "init scripts ready.d": "docs/instead-of-localstack",
    "sizing": "docs/how-to/sizing",
    "how much memory": "docs/how-to/sizing",
    "pull-through": "docs/how-to/pull-through",
    "cache a remote bucket": "docs/how-to/pull-through",
    "backup": "docs/how-to/backup",
    "restore a backup": "docs/how-to/backup",
    "restore a deleted object": "docs/how-to/undelete",
    "undelete": "docs/how-to/undelete",
    "previous version": "docs/how-to/undelete",
    "move the clock": "docs/testing",
    "full disk": "docs/operations/full-disk",
    "no space left": "docs/operations/full-disk",
    "lifecycle rules": "docs/how-to/expire",
    "delete old objects": "docs/how-to/expire",
    "expire objects": "docs/how-to/expire",
    "encrypt": "docs/encryption",
    "encryption at rest": "docs/encryption",
    "nginx proxy tls": "docs/deployment/proxy",
    "reverse proxy": "docs/deployment/proxy",
    "tls certificate": "docs/deployment/tls",
    "https": "docs/deployment/tls",
    "go test": "docs/testing/suites",
    "test suite in another language": "docs/testing/suites",
    "github actions": "docs/how-to/continuous-integration",
    "gitlab ci": "docs/how-to/continuous-integration",
    "docker": "docs/deployment/containers",
    "docker compose": "docs/deployment/containers",
    "kubernetes helm": "docs/deployment/kubernetes",
    "systemd service": "docs/deployment/systemd",
    "prometheus grafana": "docs/deployment/monitoring",
    "add a user": "docs/how-to/second-user",
    "read-only key": "docs/how-to/second-user",
    "iam policy": "docs/access",
    "public bucket": "docs/how-to/public-bucket",
    "anonymous access": "docs/how-to/public-bucket",
    "cors": "docs/how-to/public-bucket",
    "presigned url": "docs/s3/forms",
    "share a link": "docs/s3/forms",
    "upload from browser": "docs/how-to/browser-upload",
    "static website": "docs/how-to/website",
    "object lock": "docs/how-to/lock",
    "retention": "docs/how-to/lock",
    "bucket quota": "docs/usage/quotas",
    "snapshot a bucket": "docs/s3/snapshots",
    "rename a folder": "docs/operations/move",
    "webhook": "docs/events",
    "event notifications": "docs/events/notifications",
    "access log": "docs/operations/access-log",
    "signature does not match": "docs/operations/signatures",
    "upgrade": "docs/upgrade",
    "rotate keys": "docs/encryption/keys",
    "pandas": "docs/how-to/use-with",
    "rclone": "docs/how-to/use-with",
    "free space": "docs/how-to/reclaim",
    "power loss": "docs/durability",
    "environment variables": "docs/configuration",
    "change the port": "docs/configuration",
    "data directory": "docs/configuration",
    "forgot the root key": "docs/connect",
    "import from aws s3": "docs/import",
    "read only": "docs/operations/read-only",
    "server does not start": "docs/operations/start",
    "slow requests": "docs/operations/slow",
    "benchmark": "docs/benchmarks",
    "fastapi": "docs/embedding",
    "add second user": "docs/how-to/second-user",
    "cors browser": "docs/how-to/public-bucket",
    "quota of a bucket": "docs/usage/quotas",
    "backup of a running server": "docs/how-to/backup",
    "restore drill": "docs/how-to/backup",
    "disk full": "docs/operations/full-disk",
    "lines of the log": "docs/operations/log",
    "rotate keys of the keyring": "docs/encryption/keys",
    "size a machine memory disk": "docs/how-to/sizing",
    "durability modes power cut": "docs/durability",
    "get space back reclaim": "docs/how-to/reclaim",
    "verify backup without restoring": "docs/how-to/verify",
    "wrong signature": "docs/operations/signatures",
    "docker container image": "docs/deployment/containers",
    "pandas polars duckdb": "docs/how-to/use-with",
}


def main(site: Path) -> None:
    command = ["node", str(Path(__file__).with_suffix(".js")), str(site)]
    try:
        done = subprocess.run(command, input=json.dumps(list(QUESTIONS)), capture_output=True, text=True, check=True)
    except FileNotFoundError:
        sys.exit("The search of the site runs in Node.js: install it.")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"The search of the site does not run: {failed.stderr}")
    found = json.loads(done.stdout)
    missed = [
        f"{question!r} does not find {page}, but {', '.join(found[question][:FIRST]) or 'nothing'}."
        for question, page in QUESTIONS.items()
        if not any(one.startswith(page) for one in found[question][:FIRST])
    ]
    if missed:
        sys.exit("\n".join(["The search of the site misses pages:", *missed]))
    sys.stdout.write(f"{len(QUESTIONS)} questions find a page that answers them among the first {FIRST}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
