"""The metrics of a node of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_families

from orcas.cluster.numbers import numbers_of
from orcas.telemetry.cluster import FAMILIES, NodeNumbers, with_cluster

NUMBERS = NodeNumbers(owns=False, term=3, position=41, silent_sec=0.25, score=0.87)


def test_a_page_has_them_in_both_formats() -> None:
    passed = {"answered": 5, "lost": 1, "read": 7}
    families = list(text_string_to_metric_families(with_cluster("# EOF\n", NUMBERS, passed, openmetrics=True)))
    shown = [(family.name, family.type, family.documentation) for family in families]
    assert shown == [(name, kind, meaning) for name, kind, _, _, meaning in FAMILIES]
    samples = {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
    counted = {("orcas_cluster_passed_requests_total", result): 0 for result in ("refused", "repeated")}
    assert samples == counted | {
        ("orcas_cluster_owner",): 0, ("orcas_cluster_term",): 3, ("orcas_cluster_position",): 41,
        ("orcas_cluster_silent_seconds",): 0.25, ("orcas_cluster_score",): 0.87,
        ("orcas_cluster_passed_requests_total", "answered"): 5,
        ("orcas_cluster_passed_requests_total", "lost"): 1, ("orcas_cluster_reads_total",): 7,
    }  # fmt: skip
    older = with_cluster("", NUMBERS, passed, openmetrics=False)
    assert "# EOF" not in older
    assert [family.name for family in older_families(older)] == [name for name, *_ in FAMILIES]


@pytest.mark.parametrize("role", ["follower", "owner"])
def test_the_numbers_are_those_of_the_status(role: str) -> None:
    status = {"role": role, "mark": None, "next": 7, "term": 2, "silent_sec": 1.5, "score": 0.9}
    member: Any = SimpleNamespace(status=lambda: status)
    assert numbers_of(member) == NodeNumbers(role == "owner", 2, 7, 1.5, 0.9)
