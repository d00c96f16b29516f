"""The file of identities: what it makes, and what it refuses."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.iam.directory import Iam, iam_of

from orcas.control.identities.records import Records
from orcas.errors import ConfigurationError
from orcas.iam.export import export_identities
from orcas.iam.file import apply_identities, read_identities

FILE = """
[policies.photos]
Statement = [{ Effect = "Allow", Action = ["s3:GetObject"], Resource = "arn:aws:s3:::photos/*" }]

[groups.readers]
policies = ["photos"]

[users.alice]
groups = ["readers"]
policies = ["AmazonS3ReadOnlyAccess"]
boundary = "AmazonS3FullAccess"
keys = [{ access_key = "alices-access-key", secret_key = "alices-secret" }]

[users.bob]
"""


@pytest.fixture
async def iam(tmp_path: Path) -> AsyncIterator[Iam]:
    async with iam_of(tmp_path / "store") as opened:
        yield opened


async def apply(iam: Iam, text: str) -> int:
    path = iam.directory.parent / "identities.toml"
    path.write_text(text)
    iam.engine.deltas.clear()
    return await apply_identities(read_identities(path), iam.identities)


async def test_a_start_makes_what_the_file_says_once(iam: Iam, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await apply(iam, FILE) == 9
    assert "The file of identities: AddUserToGroup readers alice" in caplog.text
    assert "alices-secret" not in caplog.text
    assert len(iam.engine.deltas) == 1
    alice = (await iam.call("GetUser", UserName="alice"))["User"]
    assert alice["PermissionsBoundary"]["PermissionsBoundaryArn"].endswith("/AmazonS3FullAccess")
    assert ("alices-access-key", "alices-secret") in {row[:2] for row in (await iam.identities.snapshot()).keys}
    before = [(path, path.read_bytes()) for path in sorted(iam.directory.rglob("*.*"))]
    assert await apply(iam, FILE) == 0
    assert [(path, path.read_bytes()) for path in sorted(iam.directory.rglob("*.*"))] == before
    assert iam.engine.deltas == []


async def test_names_are_found_in_whatever_case(iam: Iam) -> None:
    await apply(iam, FILE)
    for name in ("alice", "readers", "photos"):
        assert await apply(iam, re.sub(rf"\b{name}\b(?!/)", name.capitalize(), FILE)) == 0, name


async def test_limits_of_a_user(iam: Iam) -> None:
    limited = FILE.replace("[users.bob]", "[users.bob]\nrequests_per_sec = 5\nbytes_per_sec = 1000")
    assert await apply(iam, limited) == 10
    assert [rates for _, *rates in (await iam.identities.snapshot()).limits] == [[5, 1000]]
    assert await apply(iam, limited) == 0
    assert await apply(iam, FILE) == 1
    assert (await iam.identities.snapshot()).limits == ()
    with pytest.raises(ConfigurationError, match="must have requests_per_sec from 1 to 1000000"):
        await apply(iam, limited.replace("= 5", "= 0"))


async def test_differences_are_made_up_for(iam: Iam) -> None:
    await apply(iam, FILE)
    await iam.call("CreateUser", UserName="carol")
    other = await iam.call("CreateAccessKey", UserName="alice")
    await iam.call("CreateAccessKey", UserName="bob")
    await iam.call("UpdateAccessKey", UserName="alice", AccessKeyId="alices-access-key", Status="Inactive")
    assert await apply(iam, FILE) == 2
    keys = (await iam.call("ListAccessKeys", UserName="alice"))["AccessKeyMetadata"]
    assert [(key["AccessKeyId"], key["Status"]) for key in keys] == [("alices-access-key", "Active")]
    assert other["AccessKey"]["AccessKeyId"] != "alices-access-key"
    # What the file does not name stays.
    assert len((await iam.call("ListAccessKeys", UserName="bob"))["AccessKeyMetadata"]) == 1
    assert len((await iam.call("ListUsers"))["Users"]) == 3
    changed = FILE.replace("alices-secret", "another-secret").replace('groups = ["readers"]', "")
    changed = changed.replace('["AmazonS3ReadOnlyAccess"]', '["photos"]').replace("boundary", "# boundary")
    assert await apply(iam, changed.replace("photos/*", "p/*")) == 7
    assert ("alices-access-key", "another-secret") in {row[:2] for row in (await iam.identities.snapshot()).keys}
    for number in range(6):
        assert await apply(iam, changed.replace("photos/*", f"{number}/*")) > 0
    versions = (await iam.call("ListPolicyVersions", PolicyArn=f"arn:aws:iam::{iam.number}:policy/photos"))["Versions"]
    assert versions[0]["VersionId"] == "v8"


async def test_an_empty_list_means_none(iam: Iam) -> None:
    await apply(iam, FILE)
    emptied = FILE.replace('groups = ["readers"]', "groups = []").replace('policies = ["photos"]', "policies = []")
    emptied = emptied.replace('["AmazonS3ReadOnlyAccess"]', "[]")
    assert await apply(iam, emptied) == 3
    assert (await iam.call("ListGroupsForUser", UserName="alice"))["Groups"] == []
    for kind, name in (("User", "alice"), ("Group", "readers")):
        listed = await iam.call(f"ListAttached{kind}Policies", **{f"{kind}Name": name})
        assert listed["AttachedPolicies"] == []
    assert len((await iam.call("ListAccessKeys", UserName="alice"))["AccessKeyMetadata"]) == 1
    keyless = re.sub(r"keys = .*", "keys = []", emptied)
    assert await apply(iam, keyless) == 1
    assert (await iam.call("ListAccessKeys", UserName="alice"))["AccessKeyMetadata"] == []
    assert await apply(iam, keyless) == 0


async def test_many_users_are_read_with_few_queries(iam: Iam, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = '{ Effect = "Allow", Action = "*", Resource = "*" }'
    text = "".join(
        f'[policies.p{n}]\nStatement = [{statement}]\n[groups.g{n}]\npolicies = ["p{n}"]\n'
        f'[users.u{n}]\ngroups = ["g{n}"]\npolicies = ["p{n}"]\n'
        for n in range(30)
    )
    assert await apply(iam, text) == 180
    queries = 0
    ask = Records.all

    async def counted(records: Records, query: str, *values: object) -> list[Any]:
        nonlocal queries
        queries += 1
        return await ask(records, query, *values)

    monkeypatch.setattr(Records, "all", counted)
    assert await apply(iam, text) == 0
    assert queries < 30


async def test_a_file_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(ConfigurationError) as caught:
        read_identities(path)
    assert str(caught.value) == f"The identities in {path} cannot be read: No such file or directory; name a TOML file."


async def test_secrets_have_files_of_their_own(iam: Iam) -> None:
    secret = iam.directory.parent / "secret"
    secret.write_text("the-secret-of-a-file\n")
    await apply(iam, f'[users.a]\nkeys = [{{ access_key = "a-key", secret_key_file = "{secret}" }}]')
    assert ("a-key", "the-secret-of-a-file") in {row[:2] for row in (await iam.identities.snapshot()).keys}


WRONG = {
    "no toml": "cannot be read",
    "[roles.x]": "has .roles.",
    "users = 1": "a table for each",
    "[users]\nx = 1": "The user x in .* must be a table",
    "[users.x]\nname = 1": "sets name, which no user has",
    "[groups.x]\nkeys = []": "sets keys, which no group has",
    "[users.x]\npolicies = 'p'": "needs policies, a list",
    "[users.x]\nkeys = 'k'": "needs keys, a list of tables",
    "[users.x]\nkeys = [{ access_key = 'k' }]": "needs an access_key, and a secret_key",
    "[users.x]\nkeys = [{ access_key = 'kkk', secret_key_file = '/none' }]": "cannot be read",
    "[users.x]\npolicies = ['none']": "There is no policy none.",
    "[users.x]\ngroups = ['none']": "The group with name none cannot be found",
    "[users.'x y']": "Value at 'userName' failed",
    "[users.x]\nkeys = [{ access_key = 'k', secret_key = 'short' }]": "An access key has 3 to 128",
    "[policies.x]\nStatement = 2020-01-01": "JSON cannot have",
    "[policies.x]": "Syntax errors|[Pp]olicy",
}


@pytest.mark.parametrize("text", WRONG)
async def test_a_mistake_changes_nothing(iam: Iam, text: str) -> None:
    with pytest.raises(ConfigurationError, match=WRONG[text]) as caught:
        await apply(iam, f"{text}\n[users.good]" if "users =" not in text and "[users]" not in text else text)
    assert "\n" not in str(caught.value)
    assert str(iam.directory.parent / "identities.toml") in str(caught.value)
    assert iam.engine.deltas == []
    assert (await iam.call("ListUsers"))["Users"] == []


async def test_what_a_provider_lacks_is_not_logged(iam: Iam, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await apply(iam, '[providers."https://idp.example.org"]\nclient_ids = ["web"]\n') == 1
    said = [record.getMessage() for record in caplog.records if "OpenIDConnect" in record.getMessage()]
    assert said == ["The file of identities: CreateOpenIDConnectProvider https://idp.example.org"]


async def test_what_is_exported_is_read_back_as_it_was(iam: Iam, tmp_path: Path) -> None:
    await apply(iam, FILE)
    agent = {"StringEquals": {"aws:UserAgent": ['ü\x7f\n"\\', "b"]}}
    odd = {"Statement": [{"Effect": "Deny", "Action": "s3:Get*", "Resource": "*", "Condition": agent}]}
    await iam.call("CreatePolicy", PolicyName="odd", PolicyDocument=json.dumps(odd | {"Version": "2012-10-17"}))
    limits = {"UserName": "bob", "RequestsPerSecond": 5, "BytesPerSecond": 0}
    await iam.identities.perform("PutLimits", limits)
    guests = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    await iam.call("CreateRole", RoleName="guest", AssumeRolePolicyDocument=json.dumps({"Statement": [guests]}))
    await iam.call("PutUserPolicy", UserName="bob", PolicyName="own", PolicyDocument=json.dumps(odd))
    text, left_out = await export_identities(iam.identities, secrets=False)
    assert "alices-secret" not in text
    assert "keys" not in text
    assert left_out == ["role guest", "policy own of the user bob"]
    # Here, nothing differs; elsewhere, it is made.
    assert await apply(iam, text) == 0
    text, _ = await export_identities(iam.identities, secrets=True)
    async with iam_of(tmp_path / "other") as other:
        await apply(other, text)
        again, left_out = await export_identities(other.identities, secrets=True)
        assert (tomllib.loads(again), left_out) == (tomllib.loads(text), [])
        assert ("alices-access-key", "alices-secret") in {row[:2] for row in (await other.identities.snapshot()).keys}
