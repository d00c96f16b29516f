"""What is checked and asked before a setting of a bucket is changed, and what is offered to whom."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.console.settings.test_settings import document, save, seen
from tests.console.visitors import Visitor, visitor_of
from tests.fixtures.events.receivers import SECRET, receiving, toml
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import Target, running

from orcas.console.pages.settings.sections import SECTIONS


@pytest.fixture
def path(bucket: str) -> str:
    return f"/b/{bucket}/settings"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running(tmp_path_factory.mktemp("sealed"), master_key=MASTER_KEY) as target:
        yield target


def test_a_key_of_default_encryption_is_one_of_the_server(sealed: Target) -> None:
    visitor, s3 = visitor_of(sealed), sealed.client()
    s3.create_bucket(Bucket="sealed")
    visitor.done("/keyring/create", {"name": "photos"})
    path = "/b/sealed/settings/encryption"
    page = visitor.page(path)
    (key,) = re.findall(r'<option value="([^"]+)">photos</option>', page)
    assert "orcas/control" not in page
    wrong = {"do": "form", "seen": seen(page), "fixed.algorithm": "aws:kms", "fixed.key": "no-such-key"}
    refused = visitor.post(path, wrong)
    assert refused.status_code == 400
    assert "The server has no key no-such-key" in refused.text
    assert "<option selected>no-such-key</option>" in refused.text
    shown = save(visitor, path, {"fixed.algorithm": "aws:kms", "fixed.key": key})
    assert f'<option value="{key}" selected>photos</option>' in shown
    assert s3.put_object(Bucket="sealed", Key="k", Body=b"x")["SSEKMSKeyId"].endswith(key)
    # As text, and by other names.
    text = document(shown)
    for name, status in (("alias/photos", 303), (f"arn:aws:kms:us-east-1:1:key/{key}", 303), ("alias/none", 400)):
        typed = {"do": "text", "seen": seen(visitor.page(path)), "document": text.replace(key, name)}
        assert visitor.post(path, typed).status_code == status, name
    # One that cannot be used.
    visitor.done("/keyring/act", {"key": key, "name": "photos", "action": "disable"})
    assert visitor.post(path, {"do": "text", "seen": seen(visitor.page(path)), "document": text}).status_code == 400
    visitor.close()


def test_what_costs_much_is_asked_first(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    def asked(slug: str, form: dict[str, str], said: str) -> None:
        form = {"seen": seen(visitor.page(f"{path}/{slug}"))} | form
        first = visitor.post(f"{path}/{slug}", form)
        assert first.status_code == 400
        assert said in first.text
        assert "all the same</button>" in first.text
        (sure,) = set(re.findall(r'name="sure" value="([^"]+)"', first.text))
        # The answer is about this document, and no other.
        assert visitor.post(f"{path}/{slug}", form | {"sure": f"{sure}0"}).status_code == 400
        visitor.done(f"{path}/{slug}", form | {"sure": sure})

    asked("public-access", {"do": "form", "fixed.BlockPublicAcls": "on"}, "would no longer do this: let grants")
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]["IgnorePublicAcls"] is False
    asked("public-access", {"do": "remove"}, "would no longer do this: refuse access control lists")
    rule = {"rule.0.enabled": "on", "rule.0.id": "all", "do": "form"}
    asked("lifecycle", rule | {"rule.0.days": "1"}, "remove everything in the bucket")
    # What is so already is not asked about again, nor what is narrower.
    save(visitor, f"{path}/lifecycle", {**rule, "rule.0.days": "1", "rule.0.abort_days": "1"})
    for narrow in ({"rule.0.days": "2"}, {"rule.0.prefix": "tmp/", "rule.0.days": "1"}):
        visitor.done(f"{path}/lifecycle", {"do": "remove", "seen": seen(visitor.page(f"{path}/lifecycle"))})
        save(visitor, f"{path}/lifecycle", rule | narrow)


def test_who_may_not_write_is_offered_no_save(
    visitor: Visitor, visitor_with: Callable[..., Visitor], s3: Any, bucket: str, path: str
) -> None:
    rule = {"ID": "r", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled", "Expiration": {"Days": 9}}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    reader = visitor_with("s3:Get*", "s3:List*", "orcas:ListQuotas")
    for slug, section in SECTIONS.items():
        assert ">Save" in visitor.page(f"{path}/{slug}"), slug
        page = reader.page(f"{path}/{slug}")
        buttons = re.findall(r"<button[^>]*>([^<]*)</button>", page[page.index("<h2>Files") : page.index("<dialog")])
        assert [button for button in buttons if "would" not in button] == [], slug
        assert section.needs in page
    assert "would the document remove today?" in reader.page(f"{path}/lifecycle")
    page = reader.page(f"{path}/policy")
    for button in (">Save<", "What would it allow?", "Put it into the text"):
        assert button in visitor.page(f"{path}/policy")
        assert button not in page
    writer = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=writer)
    assert "Replace the list" in visitor.page(f"{path}/acl")
    assert "Replace the list" not in reader.page(f"{path}/acl")


def test_rules_are_a_table_and_the_document_is_folded(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    rule = {"ID": "r", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled", "Expiration": {"Days": 9}}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule, rule | {"ID": "s"}]})
    page = visitor.page(f"{path}/lifecycle")
    (heads,) = re.findall(r"<thead>(.*?)</thead>", page, re.DOTALL)
    assert re.findall(r">([^<]+)</th>", heads) == [
        "No.", "Name", "In effect", "Keys that begin with", "Remove objects after days", "Action",
    ]  # fmt: skip
    assert "<details>\n<summary>The document (XML)</summary>" in page
    # What the form cannot say is open.
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration={"RedirectAllRequestsTo": {"HostName": "a.example"}})
    assert "<details open>\n<summary>The document (XML)</summary>" in visitor.page(f"{path}/website")


def test_the_targets_of_notifications_are_chosen_and_tested(tmp_path: Path) -> None:
    with receiving() as receiver:
        tables = {
            "hook": {"type": "webhook", "url": receiver.url, "secret": SECRET, "private": True},
            "deaf": {"type": "webhook", "url": "http://127.0.0.1:9/", "secret": SECRET, "private": True},
        }  # fmt: skip
        (tmp_path / "targets.toml").write_text(toml(tables), encoding="utf-8")
        with running(None, event_targets_file=str(tmp_path / "targets.toml")) as target:
            visitor = visitor_of(target)
            target.client().create_bucket(Bucket="told")
            path = "/b/told/settings/notifications"
            shown = visitor.post(path, {"do": "add", "seen": seen(visitor.page(path))}).text
            assert '<option value="arn:aws:sqs:::hook">arn:aws:sqs:::hook: webhook</option>' in shown
            assert "Test the target" not in shown
            rule = {"rule.0.arn": "arn:aws:sqs:::hook", "rule.0.created": "on"}
            rule |= {"rule.1.arn": "arn:aws:sqs:::deaf", "rule.1.removed": "on"}
            assert "Test the target hook" in save(visitor, path, rule)
            asked = {"bucket": "told", "target": "hook"}
            assert "hook has taken a test message." in visitor.done("/events/test", asked)
            assert "deaf has not taken a test message:" in visitor.done("/events/test", asked | {"target": "deaf"})
            receiver.answers = lambda _: 500
            refused = visitor.done("/events/test", asked)
            assert "hook has not taken a test message: HTTP status 500." in refused
            assert "<h2>Notifications</h2>" in refused
            assert "No test message was sent" in visitor.done("/events/test", {"target": "none"})
            visitor.close()
    assert all(b"s3:TestEvent" in each.body for each in receiver.received)
