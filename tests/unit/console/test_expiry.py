"""What lifecycle rules would remove now, counted from lists of versions and uploads."""

from __future__ import annotations

import datetime as dt

import pytest

from orcas.console.contents import Entry, Upload
from orcas.console.documents.expiry import DAY_MS, Count, Tally, prefixes, read_rules

NOW = 100 * DAY_MS + 1


def document(*rules: str) -> str:
    elements = "".join(f"<Rule><Status>Enabled</Status>{rule}</Rule>" for rule in rules)
    return f"<LifecycleConfiguration>{elements}</LifecycleConfiguration>"


def at(days: float) -> str:
    """The time so many days ago, as lists have it."""
    moment = dt.datetime.fromtimestamp((NOW - days * DAY_MS) / 1000, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def days_old(key: str, days: float, *, size: int = 10, marker: bool = False) -> Entry:
    return Entry(key, 0 if marker else size, at(days), version=f"{key}-{days}", marker=marker)


def tally(*rules: str) -> Tally:
    return Tally(read_rules(document(*rules)), NOW)


EXPIRE = "<Filter><Prefix>tmp/</Prefix></Filter><Expiration><Days>3</Days></Expiration>"
ONE = "<NewerNoncurrentVersions>1</NewerNoncurrentVersions>"
OLD = "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>5</NoncurrentDays>{}</NoncurrentVersionExpiration>"


def test_objects_expire_at_the_midnight_after_their_days() -> None:
    found = tally(EXPIRE)
    # Stored just after a midnight, and just before one: 3 days and up to one more.
    for key, days in (("tmp/a", 4.0), ("tmp/b", 3.5), ("tmp/c", 3.0), ("tmp/d", 2.9), ("other", 50)):
        found.version(days_old(key, days))
    found.end()
    assert found.counts == {0: Count(current=2, bytes=20)}
    assert found.seen == 5


def test_old_versions_stay_as_long_and_as_many_as_the_rule_says() -> None:
    found = tally(OLD.format(ONE))
    # Replaced 10, 20 and 30 days ago: the newest of those stays.
    for days in (10, 20, 30, 40):
        found.version(days_old("a", days))
    # Replaced yesterday.
    for days in (1, 90):
        found.version(days_old("b", days))
    found.end()
    assert found.counts == {0: Count(noncurrent=2, bytes=20)}


@pytest.mark.parametrize("rule", ["<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>", "<Days>1</Days>"])
def test_a_delete_marker_goes_when_it_is_alone(rule: str) -> None:
    found = tally(f"<Filter/><Expiration>{rule}</Expiration>")
    found.version(days_old("a", 10, marker=True))
    found.version(days_old("b", 10, marker=True))
    found.version(days_old("b", 20))
    found.version(days_old("c", 10, marker=True))
    found.end()
    assert found.counts == {0: Count(marker=2)}


def test_tags_and_sizes_are_conditions() -> None:
    rule = (
        "<Filter><And><Tag><Key>k</Key><Value>v</Value></Tag><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan></And></Filter>"
        "<Expiration><Days>1</Days></Expiration>"
    )
    found = tally(rule)
    small, large = days_old("a", 5, size=9), days_old("b", 5, size=10)
    assert [found.needs_tags(version) for version in (small, large, days_old("c", 5, marker=True))] == [
        False,
        True,
        False,
    ]
    found.version(small, frozenset({("k", "v")}))
    found.version(large, frozenset({("k", "v"), ("l", "w")}))
    found.version(days_old("c", 5), frozenset({("k", "w")}))
    found.end()
    assert found.counts == {0: Count(current=1, bytes=10)}


def test_unfinished_uploads_are_counted_apart() -> None:
    found = tally(
        "<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
    )
    found.upload(Upload("a", "u1", at(4)))
    found.upload(Upload("b", "u2", at(1)))
    found.version(days_old("a", 50))
    assert found.counts == {0: Count(upload=1)}


def test_the_first_rule_in_time_counts_and_those_that_are_off_never() -> None:
    off = document(EXPIRE).replace("Enabled", "Disabled")
    assert read_rules(off) == []
    date = "<ID>day</ID><Filter/><Expiration><Date>1970-01-02T00:00:00Z</Date></Expiration>"
    found = tally("<ID>days</ID>" + EXPIRE, date)
    found.version(days_old("tmp/a", 50))
    assert {found.rules[at].id: count for at, count in found.counts.items()} == {"day": Count(current=1, bytes=10)}


def test_only_prefixes_that_rules_are_about_are_listed() -> None:
    rules = read_rules(document(EXPIRE, EXPIRE.replace("tmp/", "tmp/a/"), EXPIRE.replace("tmp/", "b")))
    assert prefixes(rules, "versions") == ["b", "tmp/"]
    assert prefixes(rules, "uploads") == []


@pytest.mark.parametrize(
    ("rule", "everything"),
    [
        ("<Filter/><Expiration><Days>1</Days></Expiration>", True),
        ("<Expiration><Date>1970-01-02T00:00:00Z</Date></Expiration>", True),
        (OLD.format("").replace("5", "1"), True),
        (OLD.format(ONE).replace("5", "1"), False),
        ("<Filter/><Expiration><Days>2</Days></Expiration>", False),
        (EXPIRE.replace("3", "1"), False),
        ("<Filter/><Expiration><Date>2100-01-01T00:00:00Z</Date></Expiration>", False),
    ],
)
def test_a_rule_that_takes_everything_is_known(rule: str, everything: bool) -> None:
    (found,) = read_rules(document(rule))
    assert found.takes_everything(NOW) is everything
