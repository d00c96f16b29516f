"""Documents of buckets as forms: what a form says is what its document says, and what it cannot say stays text."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcas.console.documents import kinds
from orcas.console.documents.forms import Field, Filled, Form
from orcas.console.documents.trees import parse
from orcas.console.pages.settings.sections import SECTIONS

FORMS = {slug: section.form for slug, section in SECTIONS.items()}
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
    if field.kind in ("number", "size"):
        return st.one_of(st.just(""), NUMBERS)
    if field.kind == "pairs":
        return st.lists(st.tuples(TEXT, TEXT).map("=".join), max_size=2).map("\n".join)
    if field.kind == "lines":
        return st.lists(TEXT, max_size=2).map("\n".join)
    if field.name == "arn":
        return st.sampled_from(["arn:aws:sqs:::images", "arn:aws:lambda:::function:f", "arn:minio:sqs::n:webhook"])
    return TEXT


def filled(form: Form) -> st.SearchStrategy[Filled]:
    fixed = st.fixed_dictionaries({each.name: values_of(each) for each in form.fixed})
    rules = st.lists(st.fixed_dictionaries({each.name: values_of(each) for each in form.rule}), max_size=2)
    return st.builds(Filled, fixed, rules if form.rules else st.just([]))


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
@settings(max_examples=40)
def test_a_form_that_is_shown_again_makes_the_same_document(name: str, data: st.DataObject) -> None:
    """A form may leave an element with a text that is lost in a field of one line: such a document is edited as text."""
    form = FORMS[name]
    document = form.write(form.shown(data.draw(filled(form))))
    if document is None or (again := form.fill(document)) is None:
        return
    assert form.write(form.shown(again)) == document


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
    found = kinds.LIFECYCLE.fill(lifecycle_of(f"<And><Prefix>tmp/</Prefix>{tag}{larger}</And>"))
    assert found is not None
    (rule,) = found.rules
    assert {name: value for name, value in rule.items() if value} == {
        "id": "a", "enabled": "on", "prefix": "tmp/", "tags": "k=v", "larger": "5", "days": "3",
    }  # fmt: skip
    for same in ("", "<Prefix/>", "<Prefix></Prefix>"):
        assert kinds.LIFECYCLE.fill(lifecycle_of(same)) is not None


OLD_RULE = "<Rule><Prefix>a</Prefix><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
NOON = RULE.replace("<Days>3</Days>", "<Date>2027-01-01T12:00:00.000Z</Date>")
TEXTS = {
    "a rule of the first version": (kinds.LIFECYCLE, lifecycle_of("", OLD_RULE)),
    "an unknown element": (kinds.LIFECYCLE, "<LifecycleConfiguration><Other/></LifecycleConfiguration>"),
    "another document": (kinds.LIFECYCLE, "<CORSConfiguration/>"),
    "a key with an equals sign": (kinds.LIFECYCLE, lifecycle_of("<Tag><Key>a=b</Key><Value>c</Value></Tag>")),
    # A field of one line loses it.
    "a prefix with a line end": (kinds.LIFECYCLE, lifecycle_of("<Prefix>a&#10;b</Prefix>")),
    "no XML": (kinds.LIFECYCLE, "text"),
    "entities": (kinds.LIFECYCLE, '<!DOCTYPE a [<!ENTITY b "c">]><LifecycleConfiguration/>'),
    "a date that is no midnight": (kinds.LIFECYCLE, lifecycle_of("", NOON)),
    "an empty origin": (
        kinds.CORS,
        (
            "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin/></CORSRule>"
            "</CORSConfiguration>"
        ),
    ),
    # Not the same as to leave the prefix.
    "a prefix that is replaced by nothing": (
        kinds.WEBSITE,
        (
            "<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument><RoutingRules><RoutingRule>"
            "<Redirect><ReplaceKeyPrefixWith/></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>"
        ),
    ),
    "another bus": (
        kinds.NOTIFICATIONS,
        "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>",
    ),
    "another algorithm": (
        kinds.ENCRYPTION,
        (
            "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms:dsse"
            "</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule>"
            "</ServerSideEncryptionConfiguration>"
        ),
    ),
    "a tag with a line end": (
        kinds.TAGS,
        "<Tagging><TagSet><Tag><Key>a&#13;b</Key><Value>c</Value></Tag></TagSet></Tagging>",
    ),
    "another limit": (kinds.QUOTA, '{"bytes": 1, "other": 2}'),
    "another setting": (kinds.STORE, "x-amz-orcas-new-setting: 1"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_form_cannot_say_is_text(name: str) -> None:
    form, document = TEXTS[name]
    assert form.fill(document) is None


def test_groups_keep_their_order_whatever_their_numbers() -> None:
    taken = kinds.TAGS.take(
        {"rule.7.key": "b", "rule.2.key": "a", "rule.x.key": "no", "rule.3.unknown": "1", "other": "1"}
    )
    assert [rule["key"] for rule in taken.rules] == ["a", "", "b"]


def test_sizes_have_units() -> None:
    assert kinds.QUOTA.write(Filled({"bytes": "10 GiB", "objects": ""})) == "bytes: 10737418240\n"
    # What is no size goes to the server as it is.
    assert kinds.QUOTA.write(Filled({"bytes": "ten", "objects": ""})) == "bytes: ten\n"


def test_conditions_of_a_rule_stand_together_as_the_api_wants_it() -> None:
    taken = kinds.LIFECYCLE.take({"rule.0.prefix": "a/", "rule.0.tags": "k=v\nl=", "rule.0.smaller": "1 KiB"})
    written = kinds.LIFECYCLE.write(taken)
    assert written is not None
    (conditions,) = parse(written).find("Rule/Filter/And")
    assert [child.name for child in conditions.children] == ["Prefix", "Tag", "Tag", "ObjectSizeLessThan"]
    (empty,) = parse(kinds.LIFECYCLE.write(kinds.LIFECYCLE.take({"rule.0.days": "1"})) or "").find("Rule/Filter")
    assert empty.children == []


@pytest.mark.parametrize(
    ("arn", "name"),
    [
        ("arn:aws:sns:::t", "TopicConfiguration/Topic"), ("arn:aws:sqs:::q", "QueueConfiguration/Queue"),
        ("arn:aws:lambda:::function:f", "CloudFunctionConfiguration/CloudFunction"),
    ],
)  # fmt: skip
def test_notifications_are_what_their_target_asks_for(arn: str, name: str) -> None:
    typed = {
        "rule.0.arn": arn,
        "rule.0.created": "on",
        "rule.0.others": "s3:ObjectTagging:Put",
        "rule.0.suffix": ".jpg",
    }
    written = kinds.NOTIFICATIONS.write(kinds.NOTIFICATIONS.take(typed))
    assert written is not None
    (found,) = parse(written).find(name)
    assert found.text == arn
    assert parse(written).find(f"{name.partition('/')[0]}/Filter/S3Key/FilterRule")[0].value("Name") == "Suffix"
    again = kinds.NOTIFICATIONS.fill(written)
    assert again is not None
    assert {name: value for name, value in again.rules[0].items() if value} == {
        "arn": arn, "created": "on", "others": "s3:ObjectTagging:Put", "suffix": ".jpg",
    }  # fmt: skip
