"""Settings of a bucket over the console: each form and document, refusals, and what is typed stays."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.console.visitors import Visitor
from tests.fixtures.targets import Target

from orcas.console.pages.settings.sections import SECTIONS


def seen(text: str) -> str:
    """The mark of the document that a page was made of."""
    found = re.search(r'name="seen" value="([^"]*)"', text)
    assert found is not None
    return found[1]


def document(text: str) -> str:
    """What the text area of a page has."""
    found = re.search(r"<textarea[^>]*name=\"document\"[^>]*>\n(.*?)</textarea>", text, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def save(visitor: Visitor, path: str, form: dict[str, Any]) -> str:
    """Send the form of a section as it is shown, with these values."""
    return visitor.done(path, {"seen": seen(visitor.page(path)), "do": "form", **form})


@pytest.fixture
def path(bucket: str) -> str:
    return f"/b/{bucket}/settings"


@pytest.fixture
def reader(visitor_with: Callable[..., Visitor]) -> Visitor:
    """A user who may list buckets and objects and read lifecycle rules, and nothing else."""
    return visitor_with("s3:ListAllMyBuckets", "s3:ListBucket", "s3:GetLifecycleConfiguration")


def test_versioning_is_turned_on_and_suspended(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    for status in ("Enabled", "Suspended"):
        assert "Versioning: saved." in save(visitor, f"{path}/versioning", {"fixed.status": status})
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status


def test_a_lifecycle_rule_is_added_changed_and_removed(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    path += "/lifecycle"
    first = visitor.page(path)
    assert "nothing is removed by itself" in first
    added = visitor.post(path, {"do": "add", "seen": seen(first)})
    assert added.status_code == 200
    assert "Not saved yet" in added.text
    assert 'name="rule.0.prefix"' in added.text
    rule = {"rule.0.enabled": "on", "rule.0.prefix": "tmp/", "rule.0.days": "3"}
    saved = save(visitor, path, rule | {"rule.0.id": "temporary", "rule.0.noncurrent_days": "7", "rule.0.newer": "2"})
    (stored,) = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert stored == {
        "ID": "temporary", "Filter": {"Prefix": "tmp/"}, "Status": "Enabled", "Expiration": {"Days": 3},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2},
    }  # fmt: skip
    assert 'value="tmp/"' in saved
    assert "<Prefix>tmp/</Prefix>" in document(saved)
    dropped = visitor.post(path, {"do": "drop.0", "seen": seen(saved), **rule})
    assert 'name="rule.0.prefix"' not in dropped.text
    assert "nothing is removed by itself" in visitor.done(path, {"do": "remove", "seen": seen(saved)})
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchLifecycleConfiguration"):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_what_was_typed_stays_when_it_is_refused(visitor: Visitor, path: str) -> None:
    path += "/lifecycle"
    rule = {"rule.0.prefix": 'a"<b>', "rule.0.days": "soon"}
    wrong = visitor.post(path, {"do": "form", "seen": seen(visitor.page(path)), **rule})
    assert wrong.status_code == 400
    assert "Nothing was changed." in wrong.text
    assert 'value="a&#34;&lt;b&gt;"' in wrong.text
    # The server refuses a rule that asks for tags of uploads.
    rule = {"rule.0.tags": "k=v", "rule.0.abort_days": "3", "rule.0.prefix": "kept/"}
    refused = visitor.post(path, {"do": "form", "seen": seen(visitor.page(path)), **rule})
    assert refused.status_code == 400
    assert "AbortIncompleteMultipartUpload cannot be specified with Tags" in refused.text
    assert 'value="kept/"' in refused.text
    text = "<LifecycleConfiguration><Rule>"
    malformed = visitor.post(path, {"do": "text", "seen": seen(visitor.page(path)), "document": text})
    assert malformed.status_code == 400
    assert document(malformed.text) == text


def test_a_document_that_changed_meanwhile_is_not_overwritten(
    visitor: Visitor, s3: Any, bucket: str, path: str
) -> None:
    path += "/tags"
    mark = seen(visitor.page(path))
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "theirs"}]})
    typed = {"do": "form", "seen": mark, "rule.0.key": "a", "rule.0.value": "mine"}
    conflict = visitor.post(path, typed)
    assert conflict.status_code == 409
    assert "has changed since this page was made" in conflict.text
    assert 'value="mine"' in conflict.text
    assert "theirs" in document(conflict.text)
    assert visitor.post(path, typed | {"seen": seen(conflict.text)}).status_code == 303
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == [{"Key": "a", "Value": "mine"}]


def test_what_the_form_cannot_say_is_text(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    path += "/lifecycle"
    old = {"ID": "old", "Prefix": "a", "Status": "Enabled", "Expiration": {"Days": 1}}
    s3.put_bucket_lifecycle(Bucket=bucket, LifecycleConfiguration={"Rules": [old]})
    shown = visitor.page(path)
    assert "says more than the form can" in shown
    changed = document(shown).replace("<Days>1</Days>", "<Days>2</Days>")
    visitor.done(path, {"do": "text", "seen": seen(shown), "document": changed.replace("\n", "\r\n")})
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == [old | {"Expiration": {"Days": 2}}]


def test_cross_origin_rules(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    rule = {"rule.0.origins": "https://a.example\r\nhttps://b.example", "rule.0.put": "on", "rule.0.get": "on",
            "rule.0.headers": "*", "rule.0.exposed": "ETag", "rule.0.max_age": "60"}  # fmt: skip
    save(visitor, f"{path}/cors", rule)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [
        {"AllowedHeaders": ["*"], "AllowedMethods": ["GET", "PUT"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60,
         "AllowedOrigins": ["https://a.example", "https://b.example"]}
    ]  # fmt: skip


def test_public_access_and_ownership(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    s3.delete_public_access_block(Bucket=bucket)
    save(visitor, f"{path}/public-access", {"fixed.BlockPublicAcls": "on"})
    block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert [name for name, on in block.items() if on] == ["BlockPublicAcls"]
    save(visitor, f"{path}/ownership", {"fixed.ownership": "ObjectWriter"})
    assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"] == [
        {"ObjectOwnership": "ObjectWriter"}
    ]


def test_a_website_and_redirections_as_text(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    shown = save(visitor, f"{path}/website", {"fixed.index": "index.html", "fixed.error": "error.html"})
    assert s3.get_bucket_website(Bucket=bucket)["IndexDocument"] == {"Suffix": "index.html"}
    rule = (
        "<RoutingRules><RoutingRule><Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition>"
        "<Redirect><ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules>"
    )
    text = document(shown).replace("</WebsiteConfiguration>", f"{rule}</WebsiteConfiguration>")
    saved = visitor.done(f"{path}/website", {"do": "text", "document": text, "seen": seen(shown)})
    assert "This document says more than the form can." in saved
    found = s3.get_bucket_website(Bucket=bucket)
    assert found["RoutingRules"][0]["Redirect"] == {"ReplaceKeyPrefixWith": "new/"}


def test_quota_and_store_settings(visitor: Visitor, target: Target, bucket: str, path: str) -> None:
    shown = save(visitor, f"{path}/quota", {"fixed.bytes": "1 KiB"})
    assert document(shown) == "bytes: 1024\n"
    s3 = target.client()
    with pytest.raises(s3.exceptions.ClientError, match="QuotaExceeded"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 2000)
    assert "No quota." in visitor.done(f"{path}/quota", {"do": "remove", "seen": seen(shown)})
    shown = save(visitor, f"{path}/store", {"fixed.chunking": "content-defined", "fixed.chunk-size": "1 MiB"})
    assert document(shown) == "x-amz-orcas-chunking: content-defined\nx-amz-orcas-chunk-size: 1048576\n"
    head = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
    assert head["x-amz-orcas-chunking"] == "content-defined"
    refused = visitor.post(
        f"{path}/store", {"do": "text", "seen": seen(shown), "document": "x-amz-orcas-chunking: odd\n"}
    )
    assert refused.status_code == 400
    assert "Nothing was changed." in refused.text
    assert "as the store does" in visitor.done(f"{path}/store", {"do": "remove", "seen": seen(shown)})


def test_object_lock_needs_versioning_and_stays_on(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    lock = {"fixed.enabled": "on", "fixed.mode": "GOVERNANCE", "fixed.days": "2"}
    refused = visitor.post(f"{path}/object-lock", {"do": "form", "seen": "", **lock})
    assert refused.status_code == 409
    assert "Nothing was changed." in refused.text
    save(visitor, f"{path}/versioning", {"fixed.status": "Enabled"})
    save(visitor, f"{path}/object-lock", lock)
    found = s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"]
    assert found["Rule"]["DefaultRetention"] == {"Mode": "GOVERNANCE", "Days": 2}
    off = visitor.post(f"{path}/object-lock", {"do": "form", "seen": seen(visitor.page(f"{path}/object-lock"))})
    assert off.status_code == 400
    assert "cannot be removed" in off.text


def test_default_encryption_without_a_keyring_says_what_is_missing(visitor: Visitor, path: str) -> None:
    refused = visitor.post(f"{path}/encryption", {"do": "form", "seen": "", "fixed.algorithm": "AES256"})
    assert refused.status_code == 501
    assert "Nothing was changed." in refused.text
    assert '<option value="AES256" selected>' in refused.text


def test_notifications_name_a_target_that_exists(visitor: Visitor, path: str) -> None:
    rule = {"rule.0.arn": "arn:aws:sqs:::nowhere", "rule.0.created": "on"}
    refused = visitor.post(
        f"{path}/notifications", {"do": "form", "seen": seen(visitor.page(f"{path}/notifications")), **rule}
    )
    assert refused.status_code == 400
    assert "Unable to validate the following destination configurations" in refused.text
    assert "<option selected>arn:aws:sqs:::nowhere</option>" in refused.text


def test_the_list_says_what_is_set(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    page = visitor.page(path)
    assert "no rules" in page.lower()
    assert "<td>Never kept: an object that is replaced or deleted is gone</td>" in page
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert "<td>Kept: everything that is replaced or deleted can be restored</td>" in visitor.page(path)
    s3.put_bucket_cors(
        Bucket=bucket, CORSConfiguration={"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}
    )
    shown = visitor.page(path)
    assert "1 rule" in shown
    for slug in ("policy", "acl", *SECTIONS):
        assert f'{path}/{slug}"' in shown
        assert visitor.get(f"{path}/{slug}").status_code == 200
    assert visitor.get(f"{path}/nothing").status_code == 404
    assert visitor.get("/b/no-such-bucket/settings").status_code == 404


def test_a_user_sees_sentences_of_refusal(reader: Visitor, path: str) -> None:
    shown = reader.page(path)
    assert shown.count("You may not see it.") == len(SECTIONS)
    refused = reader.get(f"{path}/cors")
    assert refused.status_code == 403
    assert "Your key may not do this." in refused.text
    assert '<form method="post" action="/_orcas/console/b/' not in refused.text
    lifecycle = f"{path}/lifecycle"
    rule = {"rule.0.days": "3", "rule.0.prefix": "mine/"}
    kept = reader.post(lifecycle, {"do": "form", "seen": seen(reader.page(lifecycle)), **rule})
    assert kept.status_code == 403
    assert "Nothing was changed." in kept.text
    assert 'value="mine/"' in kept.text


def test_hostile_values_are_shown_escaped(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    hostile = "</textarea><script>alert(1)</script>'\"\u202e"
    rule = {"ID": hostile, "Filter": {"Prefix": hostile}, "Status": "Enabled", "Expiration": {"Days": 1}}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    shown = visitor.page(f"{path}/lifecycle")
    assert "<script>alert" not in shown
    assert hostile in html.unescape(document(shown))
    counted = visitor.done(f"{path}/lifecycle/count", {"do": "text", "document": document(shown)})
    assert "<script>alert" not in counted
