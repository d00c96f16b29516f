"""The policy of a bucket over the console: templates, warnings, what it would allow, and refusals beside the text."""

from __future__ import annotations

import html
import json
import uuid
from typing import Any

import pytest
from tests.console.settings.test_settings import document
from tests.console.visitors import Visitor
from tests.fixtures.targets import Target


@pytest.fixture
def path(bucket: str) -> str:
    return f"/b/{bucket}/settings/policy"


@pytest.fixture
def user(target: Target) -> dict[str, str]:
    """A user who may nothing: its name and ARN."""
    name, iam = f"u-{uuid.uuid4().hex}", target.server.client("iam")
    arn = iam.create_user(UserName=name)["User"]["Arn"]
    iam.close()
    return {"name": name, "arn": arn}


def test_a_template_is_saved_and_lets_the_user_read(
    visitor: Visitor, s3: Any, bucket: str, path: str, user: dict[str, str]
) -> None:
    begun = visitor.post(path, {"do": "template", "template": "read", "prefix": "shared/", "whose": user["name"]})
    assert begun.status_code == 200
    assert "Not saved yet" in begun.text
    assert "No policy" in begun.text
    text = document(begun.text)
    asked = {"do": "explain", "document": text, "who": user["name"], "action": "s3:GetObject", "key": "shared/a"}
    decided = visitor.post(path, asked)
    assert "Yes: allowed." in decided.text
    assert "Statement 3 of the bucket policy" in decided.text
    assert f"arn:aws:s3:::{bucket}/shared/*" in html.unescape(decided.text[decided.text.index("What decides") :])
    other = visitor.post(path, asked | {"key": "private/a"})
    assert "No: nothing allows it." in other.text
    assert document(other.text) == text
    # Without a text, as if there were no policy; and for everybody.
    assert "No: nothing" in visitor.post(path, asked | {"document": ""}).text
    assert "No: nothing" in visitor.post(path, asked | {"who": "anonymous"}).text
    saved = visitor.done(path, {"do": "save", "document": text.replace("\n", "\r\n")})
    assert "Policy: saved." in saved
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]) == json.loads(text)
    assert json.loads(document(saved)) == json.loads(text)
    assert "No policy" in visitor.done(path, {"do": "remove", "document": text})


def test_what_is_wrong_stands_beside_the_text(visitor: Visitor, s3: Any, bucket: str, path: str) -> None:
    for text in ("", "{", json.dumps({"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]})):
        refused = visitor.post(path, {"do": "save", "document": text})
        assert refused.status_code == 400
        assert document(refused.text) == text
        assert 'role="alert"' in refused.text
    public = visitor.post(path, {"do": "template", "template": "public-read"})
    text = document(public.text)
    # The public access block of a new bucket.
    refused = visitor.post(path, {"do": "save", "document": text})
    assert refused.status_code == 403
    assert "Nothing was changed." in refused.text
    assert document(refused.text) == text
    s3.delete_public_access_block(Bucket=bucket)
    assert ">public<" in visitor.done(path, {"do": "save", "document": text})


def test_a_policy_is_checked_without_being_saved(
    visitor: Visitor, path: str, user: dict[str, str], bucket: str
) -> None:
    fine = visitor.post(path, {"do": "template", "template": "write", "whose": user["arn"]})
    checked = visitor.post(path, {"do": "check", "document": document(fine.text)})
    assert "The policy is valid. Not saved yet." in checked.text
    wide = {
        "Effect": "Allow", "Principal": {"AWS": user["arn"]}, "NotAction": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }  # fmt: skip
    warned = visitor.post(path, {"do": "check", "document": json.dumps({"Statement": [wide]})})
    assert warned.status_code == 200
    assert "The policy is valid, but:" in warned.text
    assert "No policy" in warned.text


def test_questions_without_an_answer_are_explained(visitor: Visitor, path: str) -> None:
    for form, said in (
        ({"do": "template"}, "Choose a template."),
        ({"do": "template", "template": "read"}, "Write who may do it"),
        ({"do": "template", "template": "read", "whose": "nobody-of-this-name"}, "cannot be found"),
        (
            {"do": "explain", "who": "nobody-of-this-name", "action": "s3:ListBucket", "document": ""},
            "Nobody is called",
        ),
    ):
        answer = visitor.post(path, {"document": "kept <b>", **form})
        assert answer.status_code in (400, 404)
        assert said in answer.text
        assert document(answer.text) == form.get("document", "kept <b>")
