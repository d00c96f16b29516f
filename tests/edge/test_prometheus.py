"""Prometheus itself scrapes a live server, with the configuration, the alerts and the dashboards of deploy/."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.edge.test_traces import receiving, traced
from tests.fixtures.tables.promql import queries_of_dashboard
from tests.fixtures.waiting import wait_until

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus"
TOKEN: Final = "a-token-of-operators"


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not installed; the Debian package prometheus has it"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


@needs("promtool")
@pytest.mark.full
def test_alerts_fire_when_they_should() -> None:
    for arguments in (["check", "rules", "orcas.rules.yml"], ["test", "rules", "orcas.rules.test.yml"]):
        done = subprocess.run(
            ["promtool", *arguments], cwd=RULES, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def configuration(target: str, directory: Path) -> Path:
    """The configuration of deploy/ for this target, with a short interval and a token file of the test."""
    document = yaml.safe_load((RULES / "prometheus.yml").read_text(encoding="utf-8"))
    token = directory / "token"
    token.write_text(TOKEN)
    [job] = document["scrape_configs"]
    job["authorization"]["credentials_file"] = str(token)
    job["static_configs"] = [{"targets": [target]}]
    document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    document["rule_files"] = [str(RULES / name) for name in document["rule_files"]]
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(document))
    return path


@contextlib.contextmanager
def prometheus(target: str, directory: Path) -> Iterator[str]:
    """The URL of its API."""
    address = f"127.0.0.1:{free_port()}"
    log = directory / "prometheus.log"
    with log.open("w") as out, subprocess.Popen(
        [
            "prometheus", f"--config.file={configuration(target, directory)}",
            f"--storage.tsdb.path={directory / 'tsdb'}", f"--web.listen-address={address}",
            "--enable-feature=exemplar-storage",
        ],
        cwd=directory, stdout=out, stderr=out,
    ) as process:  # fmt: skip
        try:
            yield f"http://{address}/api/v1"
        finally:
            process.terminate()
            process.wait(30)


def asked(api: str, path: str, **parameters: str) -> Any:
    with urllib.request.urlopen(f"{api}/{path}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:
        document = json.load(answer)
    assert document["status"] == "success"
    return document["data"]


def value(api: str, query: str) -> float | None:
    """The value of a query with one result; None if it has none yet, or Prometheus does not answer yet."""
    with contextlib.suppress(OSError):
        result = asked(api, "query", query=query)["result"]
        if result:
            assert len(result) == 1
            return float(result[0]["value"][1])
    return None


def rules(api: str) -> list[Any]:
    return [rule for group in asked(api, "rules")["groups"] for rule in group["rules"]]


@needs("prometheus")
@pytest.mark.full
def test_prometheus_scrapes_a_server(tmp_path: Path) -> None:
    with receiving() as receiver, traced(tmp_path, receiver.url, "1", ORCAS_METRICS_TOKEN=TOKEN) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        for number in range(7):
            s3.put_object(Bucket="bucket", Key=str(number), Body=b"x")
        with prometheus(urllib.parse.urlsplit(server.url).netloc, tmp_path) as api:
            assert wait_until(lambda: value(api, 'orcas_requests_total{operation="PutObject",result="2xx"}') == 7)
            [target] = asked(api, "targets")["activeTargets"]
            assert (target["health"], target["lastError"]) == ("up", "")
            # Two scrapes make rates.
            assert wait_until(lambda: (value(api, 'count_over_time(up{job="orcas"}[1m])') or 0) > 1)
            for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
                for query in queries_of_dashboard(path):
                    plain = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
                    asked(api, "query", query=plain)
            series = 'orcas_request_duration_seconds_bucket{operation="PutObject"}'
            found = asked(api, "query_exemplars", query=series, start=f"{time.time() - 600}", end=f"{time.time() + 60}")
            exemplars = [exemplar["labels"]["trace_id"] for one in found for exemplar in one["exemplars"]]
            assert wait_until(lambda: set(exemplars) <= {span.trace_id.hex() for span in receiver.named("PutObject")})
            assert exemplars
            assert value(api, 'histogram_quantile(0.9, orcas_request_duration_seconds_bucket{operation="PutObject"})')
            assert wait_until(lambda: {rule["health"] for rule in rules(api)} == {"ok"})
            assert [rule["name"] for rule in rules(api) if rule["state"] == "firing"] == []
