"""AWS's query protocol: forms in, XML out."""

from __future__ import annotations

import contextlib
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.parsers import QueryParser
from botocore.serialize import QuerySerializer
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.iam.model import MODEL, operation

from orcas.control.identities.service import ACTIONS
from orcas.iam.documents import EMPTY, answer_document, error_document
from orcas.iam.forms import parse_form

FORMS = {
    b"A=1&B=a%20b+c&C=": {"A": "1", "B": "a b c", "C": ""},
    b"L.member.2=b&L.member.1=a&L.member.10=c": {"L": ["a", "b", "c"]},
    b"T.member.1.Key=k&T.member.1.Value=v&T.member.2.Key=l": {"T": [{"Key": "k", "Value": "v"}, {"Key": "l"}]},
    b"S.A.B=1&S.C=2": {"S": {"A": {"B": "1"}, "C": "2"}},
    b"X.member.1.Y.member.1=z": {"X": [{"Y": ["z"]}]},
}
MALFORMED = (
    b"A", b"A=1&A=2", b"A=1&A.B=2", b"A.B=1&A=2", b"=1", b".=1", b"A..B=1", b"L.member.x=1", b"L.member.0=1",
    b"L.member.01=1", b"A=\xff", b"a b=1", b".".join([b"A"] * 9) + b"=1", b"&".join(b"A%d=1" % n for n in range(2001)),
)  # fmt: skip


@pytest.mark.parametrize("body", FORMS)
def test_a_form_is_read(body: bytes) -> None:
    assert parse_form(body) == FORMS[body]


@pytest.mark.parametrize("body", MALFORMED)
def test_a_malformed_form_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_form(body)


def test_forms_of_botocore_are_read() -> None:
    given: dict[str, Any] = {
        "PolicySourceArn": "arn:aws:iam::123456789012:user/u", "ActionNames": ["s3:GetObject", "s3:PutObject"],
        "ContextEntries": [{"ContextKeyName": "k", "ContextKeyValues": ["a", "b"], "ContextKeyType": "string"}],
        "PolicyInputList": ['{"a": "ü&="}'], "ResourceArns": [],
    }  # fmt: skip
    sent = QuerySerializer().serialize_to_request(given, operation("SimulatePrincipalPolicy"))["body"]
    read = parse_form(urlencode(sent).encode())
    assert (read.pop("Action"), read.pop("Version")) == ("SimulatePrincipalPolicy", "2010-05-08")
    assert read == given | {"ResourceArns": ""}


@given(st.text(max_size=20))
def test_every_text_survives(text: str) -> None:
    body = ("A=" + "".join(f"%{byte:02X}" for byte in text.encode(errors="surrogatepass"))).encode()
    try:
        assert parse_form(body) == {"A": text}
    except UnicodeDecodeError:
        # Half of a surrogate pair is no text.
        assert re.search("[\ud800-\udfff]", text)


names = st.text("AbZ09", min_size=1, max_size=3)
trees = st.recursive(
    st.text(max_size=8),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(names, inner, min_size=1, max_size=3),
    max_leaves=12,
)


def fields(name: str, tree: Any) -> Iterator[tuple[str, str]]:
    """The fields of a form that say this."""
    if isinstance(tree, str):
        yield name, tree
        return
    parts = tree.items() if isinstance(tree, dict) else ((f"member.{n}", each) for n, each in enumerate(tree, 1))
    for part, inner in parts:
        yield from fields(f"{name}.{part}", inner)


@given(st.dictionaries(names, trees, min_size=1, max_size=3), st.randoms())
def test_what_a_form_says_is_read_in_any_order(tree: dict[str, Any], order: random.Random) -> None:
    pairs = [pair for name, value in tree.items() for pair in fields(name, value)]
    order.shuffle(pairs)
    body = urlencode(pairs).encode()
    if max(name.count(".") for name, _ in pairs) < 8:
        assert parse_form(body) == tree
    else:
        with pytest.raises(ValueError, match="malformed"):
            parse_form(body)


@given(
    st.lists(st.sampled_from([*"AB.=&%+1", "member", "A.member.1=", "%2", "\xff", "=x&"]), max_size=30).map("".join),
    st.binary(max_size=40),
)
def test_any_bytes_are_a_form_or_refused(text: str, more: bytes) -> None:
    for body in (text.encode("latin-1"), more, text.encode("latin-1") + more):
        # Anything but a ValueError would be answered as a fault of the server.
        with contextlib.suppress(ValueError):
            assert all(name for name in parse_form(body))


def parsed(action: str, document: bytes, status: int = 200) -> Any:
    answer = {"status_code": status, "headers": {}, "body": document}
    return QueryParser().parse(answer, operation(action).output_shape)


def test_an_answer_is_what_botocore_reads() -> None:
    answer = {"Tags": [{"Key": "<&>", "Value": "ü"}], "IsTruncated": True, "Marker": "m"}
    read = parsed("ListUserTags", answer_document("iam", "ListUserTags", answer, "id"))
    assert read.pop("ResponseMetadata")["RequestId"] == "id"
    assert read == answer
    summary = answer_document("iam", "GetAccountSummary", {"SummaryMap": {"Users": 3}}, "id")
    assert parsed("GetAccountSummary", summary)["SummaryMap"] == {"Users": 3}
    assert b"DeleteUserResult" not in answer_document("iam", "DeleteUser", {}, "id")


def test_results_are_there_where_aws_has_them() -> None:
    shapes = {action: operation(action).output_shape for action in set(ACTIONS) & set(MODEL.operation_names)}
    assert {action for action, shape in shapes.items() if shape is not None and not shape.members} == EMPTY
    assert b"<UpdateRoleResult></UpdateRoleResult>" in answer_document("iam", "UpdateRole", {}, "id")


def test_an_error_is_what_botocore_reads() -> None:
    document = error_document("iam", "NoSuchEntity", "<none>", "id", at_fault=False)
    assert parsed("GetUser", document, 404)["Error"] == {"Type": "Sender", "Code": "NoSuchEntity", "Message": "<none>"}
    assert ET.fromstring(error_document("iam", "ServiceFailure", "", "id", at_fault=True))[0][0].text == "Receiver"
