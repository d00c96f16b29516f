"""A warehouse on a server, as pyiceberg sees it, and users of it."""

from __future__ import annotations

import json
import uuid
from typing import Any

from tests.fixtures.clients import package

import orcas

arrow = package("pyarrow")
rest = package("pyiceberg.catalog.rest")

LAKE = "lake"


def catalog_of(server: orcas.Server, credential: str | None = None, **others: str) -> Any:
    credential = credential or f"{server.access_key}:{server.secret_key}"
    uri = f"{server.endpoint}/_orcas/iceberg"
    return rest.RestCatalog("test", **{"uri": uri, "warehouse": LAKE, "credential": credential} | others)


def signing(server: orcas.Server, keys: dict[str, str] | None = None, **others: str) -> Any:
    """A catalog of pyiceberg that signs its requests; it does not say the SHA-256 of a body."""
    keys = keys or {"access-key-id": server.access_key, "secret-access-key": server.secret_key}
    own = {f"client.{name}": value for name, value in keys.items()} | {"client.region": server.region}
    uri = f"{server.endpoint}/_orcas/iceberg"
    named = {"rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": server.region}
    return rest.RestCatalog("test", **{"uri": uri, "warehouse": LAKE, **named, **own} | others)


def rows(first: int, count: int = 10) -> Any:
    return arrow.table({"n": arrow.array(range(first, first + count), arrow.int64()), "s": ["a b+ü"] * count})


def numbers(table: Any, **options: Any) -> list[int]:
    return sorted(table.scan(**options).to_arrow()["n"].to_pylist())


def user(server: orcas.Server, *statements: dict[str, Any]) -> str:
    """The credential of a new user with a policy."""
    iam = server.client("iam")
    name = f"u{uuid.uuid4().hex[:8]}"
    iam.create_user(UserName=name)
    if statements:
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **each} for each in statements]}
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(document))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return f"{made['AccessKeyId']}:{made['SecretAccessKey']}"


def may(actions: str | list[str], resource: str) -> dict[str, Any]:
    return {"Action": actions, "Resource": resource}
