"""Documents of buckets as forms: what a form says is what its document says, and what it cannot say stays text."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcas.console.documents import basics, lifecycle, sharing
from orcas.console.documents.forms import Field, FieldError, Filled, Form

FORMS = {
    "versioning": basics.VERSIONING, "tags": basics.TAGS, "public access": basics.PUBLIC_ACCESS,
    "ownership": basics.OWNERSHIP, "encryption": basics.ENCRYPTION, "lock": basics.LOCK, "quota": basics.QUOTA,
    "store": basics.STORE, "lifecycle": lifecycle.FORM, "cors": sharing.CORS, "website": sharing.WEBSITE,
    "notifications": sharing.NOTIFICATIONS,
}  # fmt: skip
# What XML can have, line ends and marks that change the direction of text among it.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], include_characters="\t\n\r<&\u202e"), max_size=8
)
NUMBERS = st.integers(1, 99).map(str)


def values_of(field: Field) -> st.SearchStrategy[str]:
    if field.kind == "flag":
        return st.sampled_from(["", "on"])
    if field.kind == "choice":
        return st.sampled_from([value for value, _ in field.choices])
    if field.kind == "date":
        return st.one_of(st.just(""), st.dates(dt.date(1980, 1, 1)).map(dt.date.isoformat))
    if field.kind == "number" or field.name in ("larger", "smaller", "bytes", "chunk-size"):
        return st.one_of(st.just(""), NUMBERS)
    if field.name == "tags":
        return st.lists(st.tuples(TEXT, TEXT).map("=".join), max_size=2).map("\n".join)
    if field.kind == "lines":
        return st.lists(TEXT, max_size=2).map("\n".join)
    if field.name == "arn":
        return st.sampled_from(["arn:aws:sqs:::images", "arn:aws:lambda:::function:f", "arn:minio:sqs::n:webhook", "x"])
    return TEXT


def filled(form: Form) -> st.SearchStrategy[Filled]:
    fixed = st.fixed_dictionaries({each.name: values_of(each) for each in form.fixed})
    rules = st.lists(st.fixed_dictionaries({each.name: values_of(each) for each in form.rule}), max_size=2)
    return st.builds(Filled, fixed, rules if form.rule else st.just([]))


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
@settings(max_examples=40)
def test_a_form_that_is_shown_again_makes_the_same_document(name: str, data: st.DataObject) -> None:
    form = FORMS[name]
    typed = form.shown(data.draw(filled(form)))
    try:
        document = form.write(typed)
    except FieldError as error:
        assert error.message.endswith(".")
        assert error.name in {each.name for each in (*form.fixed, *form.rule)}
        return
    again = form.fill(document)
    assert again is not None
    sent = form.write(form.shown(again))
    assert (sent and form.normal(sent)) == (document and form.normal(document))


@pytest.mark.parametrize("name", FORMS)
def test_without_a_document_the_form_is_empty(name: str) -> None:
    found = FORMS[name].fill(None)
    assert found is not None
    assert found.rules == []


RULE = "<Rule><ID>a</ID><Filter>{}</Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule>"


def lifecycle_of(conditions: str, rule: str = RULE) -> str:
    return f"<LifecycleConfiguration>{rule.format(conditions)}</LifecycleConfiguration>"


def test_lifecycle_rules_of_a_client_are_a_form() -> None:
    tag, larger = "<Tag><Key>k</Key><Value>v</Value></Tag>", "<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>"
    found = lifecycle.FORM.fill(lifecycle_of(f"<And><Prefix>tmp/</Prefix>{tag}{larger}</And>"))
    assert found is not None
    (rule,) = found.rules
    assert {name: value for name, value in rule.items() if value} == {
        "id": "a", "enabled": "on", "prefix": "tmp/", "tags": "k=v", "larger": "5", "expire": "days", "days": "3",
    }  # fmt: skip
    for same in ("", "<Prefix/>", "<Prefix></Prefix>"):
        assert lifecycle.FORM.fill(lifecycle_of(same)) is not None


OLD_RULE = "<Rule><Prefix>a</Prefix><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
NOON = RULE.replace("<Days>3</Days>", "<Date>2027-01-01T12:00:00.000Z</Date>")
TEXTS = {
    "a rule of the first version": (lifecycle.FORM, lifecycle_of("", OLD_RULE)),
    "an unknown element": (lifecycle.FORM, "<LifecycleConfiguration><Other/></LifecycleConfiguration>"),
    "another document": (lifecycle.FORM, "<CORSConfiguration/>"),
    "a key with an equals sign": (lifecycle.FORM, lifecycle_of("<Tag><Key>a=b</Key><Value>c</Value></Tag>")),
    # A field of one line loses it.
    "a prefix with a line end": (lifecycle.FORM, lifecycle_of("<Prefix>a&#10;b</Prefix>")),
    "no XML": (lifecycle.FORM, "text"),
    "entities": (lifecycle.FORM, '<!DOCTYPE a [<!ENTITY b "c">]><LifecycleConfiguration/>'),
    "a date that is no midnight": (lifecycle.FORM, lifecycle_of("", NOON)),
    "an empty origin": (
        sharing.CORS,
        (
            "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin/></CORSRule>"
            "</CORSConfiguration>"
        ),
    ),
    # Not the same as to leave the prefix.
    "a prefix that is replaced by nothing": (
        sharing.WEBSITE,
        (
            "<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument><RoutingRules><RoutingRule>"
            "<Redirect><ReplaceKeyPrefixWith/></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>"
        ),
    ),
    "another bus": (
        sharing.NOTIFICATIONS,
        "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>",
    ),
    "another algorithm": (
        basics.ENCRYPTION,
        (
            "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms:dsse"
            "</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule>"
            "</ServerSideEncryptionConfiguration>"
        ),
    ),
    "a tag with a line end": (
        basics.TAGS,
        "<Tagging><TagSet><Tag><Key>a&#13;b</Key><Value>c</Value></Tag></TagSet></Tagging>",
    ),
    "another limit": (basics.QUOTA, '{"bytes": 1, "other": 2}'),
    "another setting": (basics.STORE, "x-amz-orcas-new-setting: 1"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_form_cannot_say_is_text(name: str) -> None:
    form, document = TEXTS[name]
    assert form.fill(document) is None


@pytest.mark.parametrize(
    ("form", "typed", "field"),
    [
        (lifecycle.FORM, {"rule.0.enabled": "on"}, "expire"),
        (lifecycle.FORM, {"rule.0.expire": "days"}, "days"),
        (lifecycle.FORM, {"rule.0.expire": "days", "rule.0.days": "soon"}, "days"),
        (lifecycle.FORM, {"rule.0.days": "3"}, "expire"),
        (lifecycle.FORM, {"rule.0.expire": "date", "rule.0.date": "tomorrow"}, "date"),
        (lifecycle.FORM, {"rule.0.newer": "3", "rule.0.abort_days": "1"}, "noncurrent_days"),
        (lifecycle.FORM, {"rule.0.abort_days": "0"}, "abort_days"),
        (lifecycle.FORM, {"rule.0.abort_days": "1", "rule.0.larger": "huge"}, "larger"),
        (lifecycle.FORM, {"rule.0.abort_days": "1", "rule.0.tags": "novalue"}, "tags"),
        (sharing.CORS, {"rule.0.origins": "*"}, "get"),
        (sharing.CORS, {"rule.0.get": "on"}, "origins"),
        (sharing.WEBSITE, {"fixed.error": "e"}, "index"),
        (sharing.NOTIFICATIONS, {"rule.0.created": "on", "rule.0.arn": "images"}, "arn"),
        (sharing.NOTIFICATIONS, {"rule.0.arn": "arn:aws:sqs:::a"}, "created"),
        (basics.TAGS, {"rule.0.value": "v"}, "key"),
        (basics.ENCRYPTION, {"fixed.key": "k"}, "algorithm"),
        (basics.ENCRYPTION, {"fixed.key": "k", "fixed.algorithm": "AES256"}, "key"),
        (basics.LOCK, {"fixed.mode": "GOVERNANCE"}, "enabled"),
        (basics.LOCK, {"fixed.enabled": "on", "fixed.mode": "GOVERNANCE"}, "length"),
        (basics.LOCK, {"fixed.enabled": "on", "fixed.length": "3"}, "mode"),
        (basics.QUOTA, {"fixed.bytes": "ten"}, "bytes"),
        (basics.STORE, {"fixed.chunk-size": "big"}, "chunk-size"),
    ],
)
def test_a_field_without_a_valid_value_is_named(form: Form, typed: dict[str, str], field: str) -> None:
    with pytest.raises(FieldError) as raised:
        form.write(form.take(typed))
    assert raised.value.name == field
    assert raised.value.group == (0 if any(name.startswith("rule.0.") for name in typed) else None)


def test_groups_keep_their_order_whatever_their_numbers() -> None:
    taken = basics.TAGS.take(
        {"rule.7.key": "b", "rule.2.key": "a", "rule.x.key": "no", "rule.3.unknown": "1", "other": "1"}
    )
    assert [rule["key"] for rule in taken.rules] == ["a", "", "b"]


def test_sizes_have_units() -> None:
    written = basics.QUOTA.write(Filled({"bytes": "10 GiB", "objects": ""}))
    assert written == '{"bytes": 10737418240, "objects": null}'
