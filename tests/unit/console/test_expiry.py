"""What lifecycle rules would remove now, counted from lists of versions and uploads."""

from __future__ import annotations

import pytest

from orcas.engine import ExpiryCount

DAY_MS = 86_400_000
NOW = 100 * DAY_MS + 1


def document(*rules: str) -> str:
    elements = "".join(f"<Rule><ID>r{at}</ID><Status>Enabled</Status>{rule}</Rule>" for at, rule in enumerate(rules))
    return f"<LifecycleConfiguration>{elements}</LifecycleConfiguration>"


def counting(*rules: str) -> ExpiryCount:
    return ExpiryCount(document(*rules).encode(), NOW)


def ago(days: float) -> int:
    return round(NOW - days * DAY_MS)


def version(found: ExpiryCount, key: str, days: float, size: int = 10, *tags: tuple[str, str]) -> None:
    found.version(key, size, ago(days), False, list(tags))


def marker(found: ExpiryCount, key: str, days: float) -> None:
    found.version(key, 0, ago(days), True, [])


def days_of(rule: str, days: int) -> str:
    return rule.format(f"<NoncurrentDays>{days}</NoncurrentDays>")


EXPIRE = "<Filter><Prefix>tmp/</Prefix></Filter><Expiration><Days>3</Days></Expiration>"
OLD = "<Filter/><NoncurrentVersionExpiration>{}</NoncurrentVersionExpiration>"
BUT_ONE = OLD.replace("{}", "{}<NewerNoncurrentVersions>1</NewerNoncurrentVersions>")


def test_objects_expire_at_the_midnight_after_their_days() -> None:
    found = counting(EXPIRE)
    # Stored just after a midnight, and just before one: 3 days and up to one more.
    for key, days in (("tmp/a", 4.0), ("tmp/b", 3.5), ("tmp/c", 3.0), ("tmp/d", 2.9), ("other", 50)):
        version(found, key, days)
    found.end()
    assert found.rows() == [("r0", 2, 0, 0, 0, 20)]


def test_old_versions_stay_as_long_and_as_many_as_the_rule_says() -> None:
    found = counting(days_of(BUT_ONE, 5))
    # Replaced 10, 20 and 30 days ago: the newest of those stays.
    for days in (10, 20, 30, 40):
        version(found, "a", days)
    # Replaced yesterday.
    for days in (1, 90):
        version(found, "b", days)
    found.end()
    assert found.rows() == [("r0", 0, 2, 0, 0, 20)]


@pytest.mark.parametrize("rule", ["<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>", "<Days>1</Days>"])
def test_a_delete_marker_goes_when_it_is_alone(rule: str) -> None:
    found = counting(f"<Filter/><Expiration>{rule}</Expiration>")
    for key in ("a", "b", "c"):
        marker(found, key, 10)
        if key == "b":
            version(found, key, 11)
    found.end()
    assert found.rows()[0][3] == 2


def test_tags_and_sizes_are_conditions() -> None:
    found = counting(
        "<Filter><And><Tag><Key>k</Key><Value>v</Value></Tag><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan></And></Filter>"
        "<Expiration><Days>1</Days></Expiration>"
    )
    assert [found.needs_tags("a", size) for size in (9, 10)] == [False, True]
    version(found, "a", 5, 9, ("k", "v"))
    version(found, "b", 5, 10, ("k", "v"), ("l", "w"))
    version(found, "c", 5, 10, ("k", "w"))
    found.end()
    assert found.rows() == [("r0", 1, 0, 0, 0, 10)]


def test_unfinished_uploads_are_counted_apart() -> None:
    days = "<DaysAfterInitiation>2</DaysAfterInitiation>"
    found = counting(f"<Filter/><AbortIncompleteMultipartUpload>{days}</AbortIncompleteMultipartUpload>")
    found.upload("a", ago(4))
    found.upload("b", ago(1))
    version(found, "a", 50)
    assert found.rows() == [("r0", 0, 0, 0, 1, 0)]


def test_the_first_rule_in_time_counts_and_those_that_are_off_never() -> None:
    off = ExpiryCount(document(EXPIRE).replace("Enabled", "Disabled").encode(), NOW)
    version(off, "tmp/a", 50)
    assert off.rows() == off.sweeping() == off.prefixes(False) == []
    found = counting(EXPIRE, "<Filter/><Expiration><Date>1970-01-02T00:00:00Z</Date></Expiration>")
    version(found, "tmp/a", 50)
    assert found.rows() == [("r1", 1, 0, 0, 0, 10)]


def test_only_prefixes_that_rules_are_about_are_listed() -> None:
    found = counting(EXPIRE, EXPIRE.replace("tmp/", "tmp/a/"), EXPIRE.replace("tmp/", "b"))
    assert found.prefixes(False) == ["b", "tmp/"]
    assert found.prefixes(True) == []


@pytest.mark.parametrize(
    ("rule", "everything"),
    [
        ("<Filter/><Expiration><Days>1</Days></Expiration>", True),
        ("<Filter/><Expiration><Date>1970-01-02T00:00:00Z</Date></Expiration>", True),
        (days_of(OLD, 1), True),
        (days_of(BUT_ONE, 1), False),
        ("<Filter/><Expiration><Days>2</Days></Expiration>", False),
        (EXPIRE.replace("3", "1"), False),
        ("<Filter/><Expiration><Date>2100-01-01T00:00:00Z</Date></Expiration>", False),
    ],
)
def test_a_rule_that_takes_everything_is_known(rule: str, everything: bool) -> None:
    assert counting(rule).sweeping() == (["r0"] if everything else [])


def test_what_the_server_would_refuse_is_not_counted() -> None:
    with pytest.raises(ValueError, match="same ID"):
        ExpiryCount(document(EXPIRE, EXPIRE).replace("r1", "r0").encode(), NOW)
