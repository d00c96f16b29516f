"""Names of the catalog of tables: in keys and ARNs, and the places of files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcas.tables.credentials import policy
from orcas.tables.failures import TableError
from orcas.tables.names import Identifier, Places, checked, decoded, encoded, identifier, parsed, place_of

# Characters that names have a meaning for in keys, paths, ARNs and policies.
ODD = st.text(alphabet="ab./%*?$~ +\\\"'é-_{}", min_size=1, max_size=8)
NAMESPACES = st.lists(ODD, min_size=1, max_size=4).map(tuple)


@given(NAMESPACES, NAMESPACES)
def test_different_namespaces_have_different_keys(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert decoded(encoded(one)) == one
    assert (encoded(one) == encoded(other)) == (one == other)
    assert not set(encoded(one)) & set("/*?$ ")
    # Only a namespace below has what a list of those below asks for.
    assert encoded(other).startswith(f"{encoded(one)}.") == (other[: len(one)] == one and len(other) > len(one))


@given(NAMESPACES, ODD, ODD)
def test_tables(namespace: tuple[str, ...], one: str, other: str) -> None:
    first, second = identifier(namespace, one), identifier(namespace, other)
    assert (first.key == second.key) == (one == other)
    assert first.path.count("/") == 1


@pytest.mark.parametrize("levels", [(), ("",), ("a\nb",), ("a", "\x00"), ("x" * 256,), ("\ud800",), tuple("a" * 17)])
def test_names_that_cannot_be(levels: tuple[str, ...]) -> None:
    with pytest.raises(TableError):
        checked(levels)


def test_levels_in_paths() -> None:
    assert parsed("a\x1fb") == ("a", "b")
    with pytest.raises(TableError):
        parsed("a\x1f")
    with pytest.raises(TableError):
        checked(("é" * 200,) * 2)


@pytest.mark.parametrize(
    "location",
    [
        "s3://other/a", "s3://lake", "s3://lake/", "s3a://lake/a", "s3://lake/.iceberg/a", "s3://lake/a/.b", "s3://lake//a",
        "s3://lake/a/../b", "s3://lake/a*", "s3://lake/a?b", "s3://lake/${a}", "s3://lake/a b", "s3://lake/a%2Fb",
        "s3://lake/a\n", "s3://lake/é", "s3://lake/" + "a/" * 300,
    ],
)  # fmt: skip
def test_places_that_cannot_be(location: str) -> None:
    with pytest.raises(TableError):
        place_of(location, "lake")


@given(NAMESPACES, ODD)
def test_places_are_known_again_for_their_table_alone(namespace: tuple[str, ...], name: str) -> None:
    places, table = Places("secret"), Identifier(namespace, name)
    place = places.new("lake", table)
    assert place_of(f"s3://lake/{place}", "lake") == place
    assert places.made("lake", table, place) is not None
    assert places.made("lake", Identifier(namespace, f"{name}x"), place) is None
    assert places.made("other", table, place) is None
    assert Places("another").made("lake", table, place) is None
    assert places.made("lake", table, place[:-1] + ("0" if place[-1] != "0" else "1")) is None
    assert places.new("lake", table) != place


def test_the_policy_of_keys_is_short_and_names_one_place() -> None:
    place = "a" * 400
    text = policy("b" * 63, place_of(f"s3://lake/{place}", "lake"), writes=True)
    assert len(text) <= 2048
    assert all(
        place in json.dumps(each) or each["Action"] == "s3:GetBucketLocation" for each in json.loads(text)["Statement"]
    )
