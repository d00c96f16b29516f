"""Managed policies, decisions with the statement that makes them, and the audit log over the console."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from tests.console.users.test_users import READ_ONLY
from tests.console.visitors import Visitor, visitor_of
from tests.fixtures.targets import running


def area(text: str) -> str:
    """What the editor has."""
    return html.unescape(re.findall(r'<textarea[^>]*name="document"[^>]*>\n(.*?)</textarea>', text, re.DOTALL)[0])


def test_a_policy_is_made_gets_versions_and_is_deleted(visitor: Visitor, iam: Any, name: str) -> None:
    begun = visitor.post("/users/policies", {"do": "template", "template": "read", "bucket": "photos", "name": name})
    text = area(begun.text)
    assert "The policy is valid." in visitor.post("/users/policies", {"do": "check", "document": text}).text
    wrong = visitor.post("/users/policies", {"do": "save", "document": "kept {", "name": name})
    assert wrong.status_code == 400
    assert area(wrong.text) == "kept {"
    made = visitor.post("/users/policies", {"do": "save", "document": text, "name": name})
    assert made.status_code == 303
    path = "/users/policies/one"
    arn = iam.list_policies(Scope="Local")["Policies"]
    (arn,) = [each["Arn"] for each in arn if each["PolicyName"] == name]
    for at in range(2, 8):
        changed = text.replace("photos", f"photos-{at}")
        assert f"Version v{at} is in effect." in visitor.done(path, {"do": "save", "arn": arn, "document": changed})
    kept = [each["VersionId"] for each in iam.list_policy_versions(PolicyArn=arn)["Versions"]]
    assert kept == ["v7", "v6", "v5", "v4", "v3"]
    assert "photos-4" in visitor.page(f"{path}?arn={arn}&version=v4")
    visitor.done(path, {"do": "default", "arn": arn, "version": "v4"})
    visitor.done(path, {"do": "drop", "arn": arn, "version": "v3"})
    assert "photos-4" in area(visitor.page(f"{path}?arn={arn}"))
    refused = visitor.post(path, {"do": "drop", "arn": arn, "version": "v4"})
    assert refused.status_code == 409
    assert "Cannot delete the default version" in refused.text
    iam.create_group(GroupName=name)
    iam.attach_group_policy(GroupName=name, PolicyArn=arn)
    assert visitor.post(path, {"do": "delete", "arn": arn, "confirm": name}).status_code == 409
    assert len(iam.list_policy_versions(PolicyArn=arn)["Versions"]) == 4
    assert f"/users/groups/{name}" in visitor.page(f"{path}?arn={arn}")
    iam.detach_group_policy(GroupName=name, PolicyArn=arn)
    assert visitor.post(path, {"do": "delete", "arn": arn, "confirm": "other"}).status_code == 400
    assert f"The policy {name} was deleted." in visitor.done(path, {"do": "delete", "arn": arn, "confirm": name})
    assert visitor.get(f"{path}?arn={arn}").status_code == 404


def test_enter_in_a_field_changes_nothing(visitor: Visitor, iam: Any, bucket: str, name: str) -> None:
    """Browsers press the first button of a form."""
    iam.create_user(UserName=name)
    for path in ("/users/policies", f"/users/users/{name}/inline", f"/b/{bucket}/settings/policy"):
        first = re.search(r'<button name="do" value="([^"]+)"', visitor.page(path))
        assert first is not None
        assert first[1] == "check"


def test_policies_that_come_with_the_server_are_shown(visitor: Visitor) -> None:
    page = visitor.page(f"/users/policies/one?arn={READ_ONLY}")
    assert "s3:Get*" in area(page)
    assert "cannot be changed" in page
    assert "Delete the policy" not in page


def test_the_statement_that_decides_is_shown(visitor: Visitor, iam: Any, s3: Any, bucket: str, name: str) -> None:
    iam.create_user(UserName=name)
    deny = {
        "Effect": "Deny",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/secret/*",
        "Sid": "NoSecrets",
    }
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps({"Statement": [deny]}))
    iam.attach_user_policy(UserName=name, PolicyArn=READ_ONLY)
    asked = {"who": name, "action": "s3:GetObject", "resource": f"{bucket}/a"}
    allowed = visitor.get("/users/may", params=asked).text
    assert "Yes: allowed." in allowed
    assert f"Statement 1 of {READ_ONLY}" in allowed
    assert "s3:Get*" in allowed
    denied = visitor.get("/users/may", params=asked | {"resource": f"{bucket}/secret/a"}).text
    assert "No: denied by a statement." in denied
    assert f"Statement 1 (NoSecrets) of user {name}: own" in denied
    assert f"arn:aws:s3:::{bucket}/secret/*" in denied
    wanted = asked | {"action": "s3:PutObject"}
    assert "No: nothing allows it." in visitor.get("/users/may", params=wanted).text
    arn = iam.get_user(UserName=name)["User"]["Arn"]
    put = {"Effect": "Allow", "Principal": {"AWS": arn}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*",
           "Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}  # fmt: skip
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [put]}))
    # The bucket's policy counts without being asked for, and a key that it asks for is named.
    here = visitor.get("/users/may", params=wanted).text
    assert "No: nothing allows it." in here
    assert "Conditions ask for aws:sourceip" in here
    there = visitor.get("/users/may", params=wanted | {"context": "aws:SourceIp=192.0.2.1"}).text
    assert "Statement 1 of the bucket policy" in there
    for wrong in (
        {"context": "novalue"},
        {"who": "no-such-user"},
        {"action": "s3:Nothing"},
        {"action": "s3:ListBucket"},
    ):
        refused = visitor.get("/users/may", params=asked | wrong)
        assert refused.status_code == 400
        assert f'value="{bucket}/a"' in refused.text


def test_who_may_read_an_object_is_listed(visitor: Visitor, iam: Any, s3: Any, bucket: str, name: str) -> None:
    iam.create_user(UserName=name)
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    page = visitor.page(f"/b/{bucket}/object?key=a")
    (link,) = re.findall(r'href="/_orcas/console(/users/may\?[^"]+)">Who may read this', page)
    shown = visitor.page(html.unescape(link))
    assert "Everybody</strong>, without a key" not in shown
    assert f":user/{name}<" not in shown
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [everybody]}))
    following = html.unescape(link)
    found = ""
    while following:
        shown = visitor.page(following)
        found += shown
        more = re.findall(r'href="/_orcas/console(/users/may\?[^"]+)">Next part', shown)
        following = html.unescape(more[0]) if more else ""
    assert "Everybody</strong>, without a key" in found
    assert f":user/{name}<" in found
    assert "Not looked at:" in found
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True})
    assert "Everybody</strong>, without a key" not in visitor.page(html.unescape(link))


def test_the_audit_log_is_listed_and_verified(tmp_path: Path) -> None:
    with running(tmp_path / "data") as target:
        visitor = visitor_of(target)
        assert "No such lines." in visitor.page("/users/audit")
        iam = target.server.client("iam")
        for at in range(120):
            iam.create_user(UserName=f"user-{at}")
        iam.close()
        page = visitor.page("/users/audit")
        assert page.count("<td>CreateUser") + page.count(">CreateUser<") == 100
        assert page.index("user-119") < page.index("user-20")
        (older,) = re.findall(r'href="/_orcas/console(/users/audit\?before[^"]+)"', page)
        rest = visitor.page(html.unescape(older))
        assert "user-19<" in rest
        assert "user-20<" not in rest
        assert "user-7<" in visitor.page("/users/audit?user=user-7")
        assert "No such lines." in visitor.page("/users/audit?action=DeleteUser")
        assert visitor.get("/users/audit?since=yesterday").status_code == 400
        assert "Lines 1 to 120 are intact" in visitor.page("/users/audit?verify=yes")
        (log,) = (tmp_path / "data" / "audit").glob("*.jsonl")
        log.write_bytes(log.read_bytes().replace(b"user-50", b"user-51", 1))
        damaged = visitor.get("/users/audit?verify=yes")
        assert damaged.status_code == 409
        assert "The audit log is damaged" in damaged.text
        visitor.close()
