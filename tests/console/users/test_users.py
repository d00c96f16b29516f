"""Users, groups and roles over the console: made, changed and deleted, with the rights of who has signed in."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from botocore.config import Config
from tests.console.visitors import Visitor, asked, shown, visitor_of
from tests.fixtures.targets import Target, refusal

READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def test_a_user_is_made_gets_a_key_and_is_deleted(
    visitor: Visitor, target: Target, iam: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = visitor.done("/users/users", {"name": name, "policy": READ_ONLY})
    assert f"The user {name} was made." in made
    assert "AmazonS3ReadOnlyAccess" in made
    path = f"/users/users/{name}"
    made = visitor.done(f"{path}/create-key")
    key, secret = shown(made, "access-key"), shown(made, "secret-key")
    assert 'data-copy="secret-key"' in made
    # It has an address: a reload makes no other key, and loses no secret.
    address = f"/users/new-key?key={key}"
    again = visitor.get(address)
    assert again.headers["cache-control"] == "no-store"
    assert shown(again.text, "secret-key") == secret
    assert len(iam.list_access_keys(UserName=name)["AccessKeyMetadata"]) == 1
    (text,) = re.findall(r'<pre id="hand-over"[^>]*>(.*?)</pre>', again.text, re.DOTALL)
    exported = dict(re.findall(r"export (\w+)=(.+)", html.unescape(text)))
    assert exported == {
        "AWS_ENDPOINT_URL": visitor.url, "AWS_REGION": target.server.region, "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
    }  # fmt: skip
    other = visitor_of(target)
    assert secret not in other.get(address, follow_redirects=True).text
    other.close()
    assert name in visitor.done("/users/new-key", {"key": key})
    assert "is not shown any more" in visitor.page(address)
    # It is nowhere again, neither in the page of the user nor in an address.
    page = visitor.page(path)
    assert key in page
    assert secret not in page
    assert secret not in caplog.text
    theirs = visitor_of(target, signed_in=False)
    assert theirs.sign_in(key, secret).status_code == 303
    theirs.close()
    assert "refused until it is turned on again" in asked(page, '/set-key"')
    assert "never comes back" in asked(page, '/delete-key"')
    off = visitor.done(f"{path}/set-key", {"key": key, "status": "Inactive"})
    assert "refused from now on" in off
    assert iam.list_access_keys(UserName=name)["AccessKeyMetadata"][0]["Status"] == "Inactive"
    assert "in use again" in visitor.done(f"{path}/set-key", {"key": key, "status": "Active"})
    assert visitor.post(f"{path}/delete", {"confirm": "another"}).status_code == 400
    assert f"The user {name} was deleted." in visitor.done(f"{path}/delete", {"confirm": name})
    assert visitor.get(path).status_code == 404


def test_a_service_account_has_a_policy_of_its_own(visitor: Visitor, target: Target, name: str, bucket: str) -> None:
    visitor.done("/users/users", {"name": name, "policy": READ_ONLY})
    path = f"/users/users/{name}"
    assert visitor.post(f"{path}/create-key", {"narrow": "yes", "document": ""}).status_code == 400
    wrong = visitor.post(f"{path}/create-key", {"narrow": "yes", "document": "{"})
    assert wrong.status_code == 400
    assert "No key was made." in wrong.text
    statement = {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
    made = visitor.done(f"{path}/create-key", {"narrow": "yes", "document": json.dumps({"Statement": [statement]})})
    theirs = visitor_of(target, signed_in=False)
    assert theirs.sign_in(shown(made, "access-key"), shown(made, "secret-key")).status_code == 303
    assert theirs.lists(bucket)
    assert theirs.get(f"/b/{bucket}/settings/cors").status_code == 403
    theirs.close()


def test_policies_groups_tags_boundary_and_limits(visitor: Visitor, iam: Any, name: str) -> None:
    visitor.done("/users/users", {"name": name})
    visitor.done("/users/groups", {"name": f"{name}-g"})
    path = f"/users/users/{name}"
    attached = visitor.done(f"{path}/attach", {"policy": READ_ONLY})
    assert "AmazonS3ReadOnlyAccess is attached." in attached
    assert "What this policy alone allows ends at once" in asked(attached, '/detach"')
    assert "Choose a policy." in visitor.post(f"{path}/attach", {"policy": ""}).text
    visitor.done(f"{path}/detach", {"policy": READ_ONLY})
    assert iam.list_attached_user_policies(UserName=name)["AttachedPolicies"] == []
    visitor.done(f"{path}/join", {"other": f"{name}-g"})
    assert name in visitor.page(f"/users/groups/{name}-g")
    visitor.done(f"/users/groups/{name}-g/remove", {"other": name})
    visitor.done(f"/users/groups/{name}-g/add", {"other": name})
    visitor.done(f"{path}/leave", {"other": f"{name}-g"})
    assert iam.get_group(GroupName=f"{name}-g")["Users"] == []
    visitor.done(f"{path}/tag", {"key": "team", "value": "red"})
    assert iam.list_user_tags(UserName=name)["Tags"] == [{"Key": "team", "Value": "red"}]
    visitor.done(f"{path}/untag", {"key": "team"})
    assert "nothing beyond it is allowed" in visitor.done(f"{path}/boundary", {"policy": READ_ONLY})
    assert "There is no permissions boundary." in visitor.done(f"{path}/boundary", {"policy": ""})
    assert 'value="50"' in visitor.done(f"{path}/limit", {"requests": "50", "bytes": ""})
    assert visitor.post(f"{path}/limit", {"requests": "many"}).status_code == 400
    # With its members, its policies and its name typed in.
    visitor.done(f"/users/groups/{name}-g/add", {"other": name})
    visitor.done(f"/users/groups/{name}-g/attach", {"policy": READ_ONLY})
    visitor.done(f"/users/groups/{name}-g/delete", {"confirm": f"{name}-g"})
    assert iam.list_groups_for_user(UserName=name)["Groups"] == []


def test_a_role_its_trust_and_its_sessions(visitor: Visitor, target: Target, iam: Any, name: str) -> None:
    text = html.unescape(re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", visitor.page("/users/roles"), re.DOTALL)[0])
    assert visitor.post("/users/roles", {"name": name, "document": "{"}).status_code == 400
    visitor.done("/users/roles", {"name": name, "document": text, "policy": READ_ONLY})
    role = iam.get_role(RoleName=name)["Role"]
    assert role["AssumeRolePolicyDocument"] == json.loads(text)
    sts = target.server.client("sts")
    made = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="session")["Credentials"]
    sts.close()
    theirs = visitor_of(target, signed_in=False)
    token = made["SessionToken"]
    assert theirs.sign_in(made["AccessKeyId"], made["SecretAccessKey"], token=token).status_code == 303
    assert "may not list the buckets" not in theirs.page("/")
    path = f"/users/roles/{name}"
    assert visitor.post(f"{path}/revoke", {"before": "soon"}).status_code == 400
    assert "have ended" in visitor.done(f"{path}/revoke", {"before": ""})
    assert "may not list the buckets" in theirs.page("/")
    theirs.close()
    changed = text.replace("sts:AssumeRole", "sts:TagSession")
    visitor.done(f"{path}/trust", {"do": "save", "document": changed})
    assert "sts:TagSession" in visitor.page(path)
    wrong = visitor.post(f"{path}/trust", {"do": "save", "document": "kept {"})
    assert wrong.status_code == 400
    assert "kept {" in wrong.text
    visitor.done(f"{path}/delete", {"confirm": name})


def test_an_inline_policy_is_checked_and_saved(visitor: Visitor, iam: Any, name: str) -> None:
    visitor.done("/users/users", {"name": name})
    path = f"/users/users/{name}"
    begun = visitor.post(f"{path}/inline", {"do": "template", "template": "read", "bucket": "photos", "name": "own"})
    text = html.unescape(re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", begun.text, re.DOTALL)[0])
    assert 'value="own"' in begun.text
    assert "The policy is valid." in visitor.post(f"{path}/inline", {"do": "check", "document": text}).text
    wrong = visitor.post(f"{path}/inline", {"do": "save", "document": "kept {", "name": "own"})
    assert wrong.status_code == 400
    assert "kept {" in wrong.text
    assert "own" in visitor.done(f"{path}/inline", {"do": "save", "document": text, "name": "own"})
    assert iam.get_user_policy(UserName=name, PolicyName="own")["PolicyDocument"] == json.loads(text)
    assert "s3:GetObject" in visitor.page(f"{path}/inline?policy=own")
    visitor.done(f"{path}/delete-inline", {"policy": "own"})
    assert iam.list_user_policies(UserName=name)["PolicyNames"] == []


def test_names_that_are_refused_stay_in_the_form(visitor: Visitor) -> None:
    refused = visitor.post("/users/users", {"name": 'a"<script>'})
    assert refused.status_code == 400
    assert "Nothing was made." in refused.text
    assert 'value="a&#34;&lt;script&gt;"' in refused.text
    assert "<script>alert" not in refused.text
    for path in ("/users/strange", "/users/strange/a", "/users/users/no-such-user", "/users/groups/no-such-group"):
        assert visitor.get(path).status_code == 404, path
    assert visitor.post("/users/users/root/fly").status_code == 404
    assert visitor.post("/users/groups/a/create-key").status_code == 404


def test_a_page_of_a_long_list_leads_to_the_next(visitor: Visitor, iam: Any, name: str) -> None:
    for at in range(101):
        iam.create_group(GroupName=f"{name}-{at:03}")
    first = visitor.page("/users/groups")
    (link,) = re.findall(r'href="/_orcas/console(/users/groups\?after=[^"]+)"', first)
    assert f"{name}-100" in first + visitor.page(html.unescape(link))
    for at in range(101):
        iam.delete_group(GroupName=f"{name}-{at:03}")


def test_who_may_not_gets_sentences(visitor_with: Callable[..., Visitor], iam: Any, name: str) -> None:
    iam.create_user(UserName=name)
    nobody = visitor_with()
    for path in ("/users/users", "/users/policies", f"/users/users/{name}", "/users/audit"):
        refused = nobody.get(path)
        assert refused.status_code == 403, path
        assert "That did not work" in refused.text
    refused = nobody.post(f"/users/users/{name}/attach", {"policy": READ_ONLY})
    assert refused.status_code == 403
    looker = visitor_with("iam:GetUser", "iam:ListGroupsForUser")
    partly = looker.page(f"/users/users/{name}")
    assert "is not authorized to perform: iam:ListAccessKeys" in partly
    assert "In no group." in partly
    refused = looker.post(f"/users/users/{name}/create-key")
    assert refused.status_code == 403
    assert "No key was made." in refused.text
    assert iam.list_access_keys(UserName=name)["AccessKeyMetadata"] == []
    refused = looker.post(f"/users/users/{name}/delete", {"confirm": name})
    assert "was not deleted" in looker.page(f"/users/users/{name}")


def test_a_user_without_rights_may_be_helped(
    visitor: Visitor, visitor_with: Callable[..., Visitor], target: Target, name: str
) -> None:
    """A manager of users who may not read objects uses the same pages."""
    manager = visitor_with("iam:*")
    assert f"The user {name} was made." in manager.done("/users/users", {"name": name, "policy": READ_ONLY})
    page = manager.page(f"/users/users/{name}")
    # Limits are an action of their own.
    assert "Set the limits" not in page
    assert "Set the limits" in visitor.page(f"/users/users/{name}")
    assert "Set the limits" in visitor_with("iam:*", "orcas:*").page(f"/users/users/{name}")


def test_a_single_key_is_limited(
    visitor: Visitor, target: Target, iam: Any, name: str, bucket: str, visitor_with: Callable[..., Visitor]
) -> None:
    iam.create_user(UserName=name)
    iam.attach_user_policy(UserName=name, PolicyArn=READ_ONLY)
    pair = iam.create_access_key(UserName=name)["AccessKey"]
    key, path = pair["AccessKeyId"], f"/users/users/{name}"
    said = visitor.done(f"{path}/limit-key", {"key": key, "key_requests": "1", "key_bytes": "2048"})
    assert f"Access key {key} is limited." in said
    assert "1 requests" in said
    assert "2 KiB" in said
    for wrong in (
        {"key": key, "key_requests": "many"},
        {"key_requests": "1"},
        {"key": "AKIANONE", "key_requests": "1"},
    ):
        answer = visitor.post(f"{path}/limit-key", wrong)
        assert answer.status_code in (400, 404), answer.text
    once = Config(retries={"total_max_attempts": 1})
    secret = pair["SecretAccessKey"]
    client = target.server.client(aws_access_key_id=key, aws_secret_access_key=secret, config=once)
    assert refusal(lambda: [client.list_objects_v2(Bucket=bucket) for _ in range(1000)]) == (503, "SlowDown")
    client.close()
    assert f"Access key {key} has no limits." in visitor.done(f"{path}/limit-key", {"key": key})
    # Who is not allowed to know of limits.
    theirs = visitor_with("iam:*").page(path)
    assert key in theirs
    assert "Limits" not in theirs
