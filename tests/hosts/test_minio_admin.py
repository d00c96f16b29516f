"""MinIO's admin API: who may give orders, and what becomes of wrong ones. Clients are in tests/clients."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.signing import Identity, signed_headers
from tests.fixtures.waiting import wait_until
from tests.hosts.test_minio import KEYS, Running, running

from orcas.minio.sealed import opened, sealed

SECRET = KEYS[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        tmp_path_factory.mktemp("admin"),
        MINIO_ROOT_USER=KEYS[0], MINIO_ROOT_PASSWORD=SECRET, MINIO_DEFAULT_BUCKETS="images",
    ) as found:  # fmt: skip
        yield found


def order(
    server: Running, method: str, path: str, body: bytes = b"", keys: tuple[str, str] | None = KEYS, region: str = "",
    sent: bytes | None = None, **parameters: str,
) -> tuple[int, bytes]:  # fmt: skip
    """One order. `sent`: another body than the one that is signed."""
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in sorted(parameters.items()))
    target = f"/minio/admin/v3/{path}{'?' if query else ''}{query}"
    headers = {"host": f"127.0.0.1:{server.port}"}
    if keys is not None:
        identity = Identity(*keys, region)
        headers = signed_headers(identity, method, f"http://127.0.0.1:{server.port}{target}", headers, body)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, target, body if sent is None else sent, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def refused(answer: tuple[int, bytes]) -> tuple[int, str]:
    status, body = answer
    return status, json.loads(body)["Code"]


def enclosed(document: dict[str, Any]) -> bytes:
    return sealed(SECRET, json.dumps(document).encode())


def shown(answer: tuple[int, bytes]) -> Any:
    status, body = answer
    assert status == 200, body
    return json.loads(opened(SECRET, body))


def test_a_user_is_made_limited_and_removed(server: Running) -> None:
    user = {"accessKey": "alice"}
    assert order(server, "PUT", "add-user", enclosed({"secretKey": "alices-secret", "status": "enabled"}), **user) == (
        200,
        b"",
    )
    attached = {"policies": ["readwrite"], "user": "alice"}
    body = enclosed(attached)
    assert shown(order(server, "POST", "idp/builtin/policy/attach", body)) == {"policiesAttached": ["readwrite"]}
    alice = server.client(("alice", "alices-secret"))
    alice.put_object(Bucket="images", Key="k", Body=b"content")
    facts = {"policyName": "readwrite", "status": "enabled", "memberOf": []}
    assert shown(order(server, "GET", "list-users")) == {"alice": facts}
    # A second time, the secret is another, and the policies stay.
    assert order(server, "PUT", "add-user", enclosed({"secretKey": "a-new-secret"}), **user)[0] == 200
    with pytest.raises(ClientError):
        alice.get_object(Bucket="images", Key="k")
    alice = server.client(("alice", "a-new-secret"))
    assert alice.get_object(Bucket="images", Key="k")["Body"].read() == b"content"
    assert order(server, "PUT", "set-user-status", status="disabled", **user)[0] == 200
    with pytest.raises(ClientError):
        alice.get_object(Bucket="images", Key="k")
    assert json.loads(order(server, "GET", "user-info", **user)[1])["status"] == "disabled"
    assert order(server, "DELETE", "remove-user", **user)[0] == 200
    assert refused(order(server, "GET", "user-info", **user)) == (404, "XMinioAdminNoSuchUser")
    files = [path for path in server.log.parent.rglob("*") if path.is_file()]
    assert any(b"CreateUser" in path.read_bytes() for path in files if path.parent.name == "audit")
    assert [path for path in files if b"alices-secret" in path.read_bytes()] == []


def test_a_service_account_may_do_no_more_than_its_policy(server: Running) -> None:
    assert (
        order(
            server, "PUT", "add-user", enclosed({"secretKey": "bobs-secret", "policy": "readwrite"}), accessKey="bob"
        )[0]
        == 200
    )
    statement = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::images/*"]}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    asked = {"targetUser": "bob", "accessKey": "service", "secretKey": "service-secret", "policy": policy}
    made = shown(order(server, "PUT", "add-service-account", enclosed(asked)))["credentials"]
    assert (made["accessKey"], made["secretKey"]) == ("service", "service-secret")
    service = server.client(("service", "service-secret"))
    server.client(("bob", "bobs-secret")).put_object(Bucket="images", Key="b", Body=b"content")
    assert service.get_object(Bucket="images", Key="b")["Body"].read() == b"content"
    with pytest.raises(ClientError):
        service.put_object(Bucket="images", Key="b", Body=b"other")
    listed = shown(order(server, "GET", "list-service-accounts", user="bob"))["accounts"]
    assert [(account["accessKey"], account["accountStatus"]) for account in listed] == [("service", "on")]
    assert order(server, "DELETE", "delete-service-account", accessKey="service")[0] == 204
    with pytest.raises(ClientError):
        service.get_object(Bucket="images", Key="b")


def test_policies_are_made_changed_and_removed(server: Running) -> None:
    def document(action: str) -> bytes:
        statement = {"Effect": "Allow", "Action": [action], "Resource": ["arn:aws:s3:::images/*"]}
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()

    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert order(server, "PUT", "add-canned-policy", document(action), name="mine") == (200, b"")
        info = json.loads(order(server, "GET", "info-canned-policy", name="mine", v="2")[1])
        assert info["Policy"]["Statement"][0]["Action"] == [action]
    known = json.loads(order(server, "GET", "list-canned-policies")[1])
    assert {"mine", "readwrite", "readonly", "writeonly", "consoleAdmin", "diagnostics"} <= set(known)
    assert refused(order(server, "PUT", "add-canned-policy", b"{}", name="bad")) == (400, "MalformedPolicyDocument")
    assert order(server, "DELETE", "remove-canned-policy", name="mine") == (200, b"")
    again = order(server, "DELETE", "remove-canned-policy", name="mine")
    assert refused(again) == (404, "XMinioAdminNoSuchPolicy")
    unknown = enclosed({"policies": ["none"], "user": "alice"})
    assert order(server, "POST", "idp/builtin/policy/attach", unknown)[0] == 404


@pytest.mark.parametrize(("method", "name"), [("GET", "info"), ("GET", "list-users"), ("PUT", "add-user")])
def test_root_alone_gives_orders(server: Running, method: str, name: str) -> None:
    everything = enclosed({"secretKey": "carols-secret", "policy": "consoleAdmin"})
    assert order(server, "PUT", "add-user", everything, accessKey="carol")[0] == 200
    body = enclosed({"secretKey": "forged-secret"}) if method == "PUT" else b""
    for keys in (None, ("carol", "carols-secret"), ("nobody", "a-secret"), (KEYS[0], "wrong-secret")):
        answer = order(server, method, name, body, keys, accessKey="mallory")
        assert refused(answer)[0] == 403, keys
    # The body is that of another request.
    answer = order(server, method, name, body, sent=enclosed({"secretKey": "x"}), accessKey="mallory")
    assert refused(answer) == (403, "XAmzContentSHA256Mismatch")
    assert refused(order(server, "GET", "user-info", accessKey="mallory")) == (404, "XMinioAdminNoSuchUser")


def send(server: Running, method: str, target: str, headers: dict[str, str], body: bytes = b"") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, target, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_order_counts_again_for_a_moment_alone(server: Running) -> None:
    assert order(server, "PUT", "add-user", enclosed({"secretKey": "daves-secret"}), accessKey="dave")[0] == 200
    targets = [f"/minio/admin/v3/set-user-status?accessKey=dave&status={status}" for status in ("disabled", "enabled")]
    host = f"127.0.0.1:{server.port}"
    while True:
        began = time.monotonic()
        signed = [
            (target, signed_headers(Identity(*KEYS, ""), "PUT", f"http://{host}{target}", {"host": host}, b""))
            for target in targets
        ]
        # Disabled, enabled, and disabled again, as three commands of one second may ask for.
        statuses = [send(server, "PUT", *signed[at]) for at in (0, 1, 0)]
        if time.monotonic() - began < 2:
            break
    assert statuses == [200, 200, 200]
    assert json.loads(order(server, "GET", "user-info", accessKey="dave")[1])["status"] == "disabled"
    # Whoever has captured the order cannot let the user in later.
    assert wait_until(lambda: send(server, "PUT", *signed[1]) == 409)
    assert order(server, "PUT", "set-user-status", accessKey="dave", status="disabled")[0] == 200
    assert send(server, "PUT", *signed[1]) == 409
    assert json.loads(order(server, "GET", "user-info", accessKey="dave")[1])["status"] == "disabled"


def test_an_order_that_counts_again_must_be_signed_all_the_same(server: Running) -> None:
    host, target = f"127.0.0.1:{server.port}", "/minio/admin/v3/add-user?accessKey=eve"
    headers = signed_headers(Identity(*KEYS, ""), "PUT", f"http://{host}{target}", {"host": host}, b"{}")
    assert send(server, "PUT", target, headers, b"{}") == 400
    assert send(server, "PUT", target.replace("eve", "mallory"), headers, b"{}") == 403
    assert send(server, "PUT", target, headers, b"[]") == 403


def test_groups_have_members_and_policies(server: Running) -> None:
    def change(**document: Any) -> tuple[int, bytes]:
        return order(server, "PUT", "update-group-members", json.dumps({"group": "staff", **document}).encode())

    for name in ("gina", "hugo"):
        assert order(server, "PUT", "add-user", enclosed({"secretKey": f"{name}s-secret"}), accessKey=name)[0] == 200
    assert refused(change(members=["nobody"], isRemove=False)) == (404, "XMinioAdminNoSuchUser")
    assert refused(order(server, "GET", "group", group="staff")) == (404, "XMinioAdminNoSuchGroup")
    assert change(members=["gina", "hugo"], groupStatus="enabled", isRemove=False) == (200, b"")
    attach = enclosed({"policies": ["readwrite"], "group": "staff"})
    assert shown(order(server, "POST", "idp/builtin/policy/attach", attach)) == {"policiesAttached": ["readwrite"]}
    gina = server.client(("gina", "ginas-secret"))
    gina.put_object(Bucket="images", Key="g", Body=b"content")
    assert json.loads(order(server, "GET", "groups")[1]) == ["staff"]
    facts = {"name": "staff", "status": "enabled", "members": ["gina", "hugo"], "policy": "readwrite"}
    assert json.loads(order(server, "GET", "group", group="staff")[1]) == facts

    attach = enclosed({"policies": ["readonly"], "user": "hugo"})
    assert order(server, "POST", "idp/builtin/policy/attach", attach)[0] == 200
    of_group = {"group": "staff", "policies": ["readwrite"]}
    of_user = {"user": "hugo", "policies": ["readonly"], "memberOfMappings": [of_group]}
    found = shown(order(server, "GET", "idp/builtin/policy-entities", user="hugo"))
    assert (found["userMappings"], found["groupMappings"], found["policyMappings"]) == ([of_user], [], [])
    found = shown(order(server, "GET", "idp/builtin/policy-entities", policy="readonly"))
    assert found["policyMappings"] == [{"policy": "readonly", "users": ["hugo"], "groups": []}]
    found = shown(order(server, "GET", "idp/builtin/policy-entities"))
    assert of_user in found["userMappings"]
    assert found["groupMappings"] == [of_group]
    assert [entry["groups"] for entry in found["policyMappings"] if entry["policy"] == "readwrite"] == [["staff"]]
    assert shown(order(server, "GET", "idp/builtin/policy-entities", group="none"))["groupMappings"] == []

    assert change(members=[], isRemove=False) == (200, b"")
    assert json.loads(order(server, "GET", "groups")[1]) == ["staff"]
    disabled = order(server, "PUT", "set-group-status", group="staff", status="disabled")
    assert refused(disabled) == (501, "NotImplemented")
    assert refused(change(members=[], isRemove=True)) == (400, "XMinioAdminGroupNotEmpty")
    assert change(members=["gina", "hugo"], isRemove=True) == (200, b"")
    with pytest.raises(ClientError):
        gina.get_object(Bucket="images", Key="g")
    assert change(members=[], isRemove=True) == (200, b"")
    assert json.loads(order(server, "GET", "groups")[1]) == []
    for body in (b"", b"[]", b"{}", b'{"group": "x"}'):
        assert refused(order(server, "PUT", "update-group-members", body)) == (400, "InvalidRequest")


@pytest.mark.parametrize(
    ("method", "name", "body", "parameters", "expected"),
    [
        ("PUT", "add-user", b"", {"accessKey": "eve"}, (400, "InvalidRequest")),
        ("PUT", "add-user", b"{}", {"accessKey": "eve"}, (400, "InvalidRequest")),
        ("PUT", "add-user", bytes(60_000), {"accessKey": "eve"}, (400, "InvalidRequest")),
        ("PUT", "add-user", b"[]", {"accessKey": "eve"}, (400, "InvalidRequest")),
        ("PUT", "add-user", b"{}", {}, (400, "InvalidArgument")),
        ("PUT", "add-user", bytes(70_000), {"accessKey": "eve"}, (413, "EntityTooLarge")),
        ("GET", "nonsense", b"", {}, (501, "NotImplemented")),
        ("POST", "add-user", b"", {}, (501, "NotImplemented")),
        ("POST", "service", b"", {"action": "restart"}, (501, "NotImplemented")),
        ("PUT", "set-user-status", b"", {"accessKey": "bob", "status": "gone"}, (400, "InvalidArgument")),
        ("DELETE", "delete-service-account", b"", {"accessKey": "none"}, (404, "XMinioInvalidIAMCredentials")),
    ],
)
def test_a_wrong_order_is_refused(
    server: Running, method: str, name: str, body: bytes, parameters: dict[str, str], expected: tuple[int, str]
) -> None:
    assert refused(order(server, method, name, body, **parameters)) == expected


@pytest.mark.parametrize(
    ("name", "command"), [("set-bucket-quota", "orcas quota"), ("trace", "orcas top"), ("nonsense", "orcas --help")]
)
def test_another_order_is_refused_with_the_command_to_use(server: Running, name: str, command: str) -> None:
    status, body = order(server, "PUT", name)
    assert status == 501
    assert f"use `{command}`" in json.loads(body)["Message"]


@pytest.mark.parametrize(
    "document", [[], "text", 1, {}, {"secretKey": 1}, {"secretKey": "short"}, {"secretKey": "é" * 9}]
)
def test_a_document_that_is_none_is_refused(server: Running, document: Any) -> None:
    status, _ = order(server, "PUT", "add-user", sealed(SECRET, json.dumps(document).encode()), accessKey="frank")
    assert status == 400
    assert refused(order(server, "GET", "user-info", accessKey="frank")) == (404, "XMinioAdminNoSuchUser")


def test_what_server_information_shows(server: Running) -> None:
    status, body = order(server, "GET", "info")
    found = json.loads(body)
    assert (status, found["mode"], found["buckets"]["count"]) == (200, "online", 1)
    assert found["servers"][0]["state"] == "online"


def test_other_requests_must_name_a_region(server: Running) -> None:
    for target in ("/images", "/_orcas/admin/stats", "/minio-data"):
        url = f"http://127.0.0.1:{server.port}{target}"
        headers = signed_headers(Identity(*KEYS, ""), "GET", url, {"host": f"127.0.0.1:{server.port}"}, b"")
        status, _, body = server.ask("GET", target, **headers)
        assert status in (400, 403), target
        assert "the region of the Credential is mal-formed" in body or target.startswith("/_orcas"), body
