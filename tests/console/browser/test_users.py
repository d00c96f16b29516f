"""Users in Chromium: a second user gets read-only access to one bucket, and signs in; every page accessible."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.browser.findings import findings
from tests.console.visitors import BASE
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import Page

READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def test_a_second_user_reads_one_bucket(browser: Page, target: Target, s3: Any, bucket: str) -> None:
    name, base = f"u-{uuid.uuid4().hex[:12]}", target.server.endpoint + BASE
    s3.put_object(Bucket=bucket, Key="report.txt", Body=b"x")
    browser.goto(base + "/")
    browser.get_by_role("link", name="Users", exact=True).click()
    browser.get_by_label("Name", exact=True).fill(name)
    browser.get_by_role("button", name="Make the user").click()
    browser.get_by_text(f"The user {name} was made.").wait_for()
    browser.get_by_role("link", name="Write an inline policy").click()
    browser.get_by_label("Name", exact=True).fill("one-bucket")
    browser.get_by_label("Template", exact=True).select_option("browse")
    browser.get_by_label("Bucket", exact=True).fill(bucket)
    browser.get_by_role("button", name="Put it into the text").click()
    browser.get_by_text("The template is in the text.").wait_for()
    browser.get_by_role("button", name="Save", exact=True).click()
    browser.get_by_text("The inline policy one-bucket is saved.").wait_for()
    browser.get_by_role("button", name="Make an access key").click()
    browser.locator("#secret-key").wait_for()
    browser.reload()
    key, secret = (browser.locator(f"#{part}").inner_text() for part in ("access-key", "secret-key"))
    assert findings(browser) == []
    assert secret not in browser.url
    assert browser.evaluate("JSON.stringify([localStorage, sessionStorage])").find(secret) < 0
    browser.get_by_role("button", name="I have copied it").click()
    browser.get_by_role("heading", name=name).wait_for()
    assert secret not in browser.content()

    browser.get_by_role("button", name="Sign out").click()
    browser.get_by_label("Access key").fill(key)
    browser.get_by_label("Secret key").fill(secret)
    browser.get_by_role("button", name="Sign in").click()
    browser.get_by_text(f"user/{name}", exact=True).wait_for()
    browser.get_by_role("link", name=bucket, exact=True).click()
    browser.get_by_text("report.txt").first.wait_for()
    browser.goto(f"{base}/b/{bucket}/settings/lifecycle")
    browser.get_by_text("is not authorized to perform: s3:GetLifecycleConfiguration").wait_for()
    assert findings(browser) == []
    browser.goto(f"{base}/users/users")
    browser.get_by_text("is not authorized to perform: iam:ListUsers").wait_for()
    theirs = target.server.client("s3", aws_access_key_id=key, aws_secret_access_key=secret)
    assert theirs.get_object(Bucket=bucket, Key="report.txt")["Body"].read() == b"x"
    with pytest.raises(theirs.exceptions.ClientError, match="AccessDenied"):
        theirs.put_object(Bucket=bucket, Key="report.txt", Body=b"y")
    theirs.close()


def test_a_secret_is_copied_without_tls(browser: Page, target: Target, iam: Any) -> None:
    """Beyond this machine, browsers have no clipboard for scripts of pages without TLS."""
    name, base = f"u-{uuid.uuid4().hex[:12]}", target.server.endpoint + BASE
    iam.create_user(UserName=name)
    browser.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    browser.goto(f"{base}/users/users/{name}")
    browser.get_by_role("button", name="Make an access key").click()
    secret = browser.locator("#secret-key").inner_text()
    browser.get_by_role("button", name="Copy the secret key").click()
    browser.get_by_role("button", name="Copied", exact=True).wait_for()
    browser.goto(base + "/")
    browser.get_by_label("Name begins with").focus()
    browser.keyboard.press("Control+V")
    assert browser.get_by_label("Name begins with").input_value() == secret


def test_a_key_is_deleted_once_its_cost_was_shown(browser: Page, target: Target, iam: Any) -> None:
    name = f"u-{uuid.uuid4().hex[:12]}"
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]["AccessKeyId"]
    browser.goto(f"{target.server.endpoint}{BASE}/users/users/{name}")
    assert browser.get_by_role("button", name=f"Delete {key}").is_hidden()
    browser.get_by_text(f"Delete … {key}").click()
    browser.get_by_text("the key never comes back").wait_for()
    assert findings(browser) == []
    browser.get_by_role("button", name=f"Delete {key}").click()
    browser.get_by_text(f"Access key {key} was deleted.").wait_for()
    assert iam.list_access_keys(UserName=name)["AccessKeyMetadata"] == []


PATHS = (
    "/users/users", "/users/groups", "/users/roles", "/users/policies", f"/users/policies/one?arn={READ_ONLY}",
    "/users/users/NAME", "/users/groups/NAME", "/users/roles/NAME", "/users/users/NAME/inline?policy=own",
    "/users/roles/NAME/trust", "/users/may?who=NAME", "/users/audit", "/users/accounts",
    "/users/root-key",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_pages_are_accessible(browser: Page, target: Target, iam: Any, path: str) -> None:
    name = f"n-{uuid.uuid4().hex[:12]}"
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
    iam.create_user(UserName=name, Tags=[{"Key": "k", "Value": "a" * 200}])
    iam.create_access_key(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps({"Statement": [statement]}))
    iam.attach_user_policy(UserName=name, PolicyArn=READ_ONLY)
    iam.create_group(GroupName=name)
    iam.add_user_to_group(GroupName=name, UserName=name)
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": [trust]}))
    browser.goto(target.server.endpoint + BASE + path.replace("NAME", name))
    assert findings(browser) == []
