"""The files of deploy/: they name metrics, settings and paths that exist, and the service has few rights."""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.fixtures.tables.promql import (
    families,
    flaws,
    keeps,
    queries_of_dashboard,
    queries_of_rules,
    targets_of_dashboard,
)

from orcas.engine import METRICS
from orcas.settings.config import PREFIX, SETTINGS, variable_name

ROOT: Final = Path(__file__).parents[3]
DEPLOY: Final = ROOT / "deploy"
RULES: Final = DEPLOY / "prometheus" / "orcas.rules.yml"
DASHBOARDS: Final = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
VARIABLES: Final = {variable_name(name) for name, setting in SETTINGS.items() if setting.variable} | {
    f"{variable_name(name)}_FILE" for name, setting in SETTINGS.items() if setting.secret
}
# Why a metric is on no dashboard.
NOT_SHOWN: Final = {
    "orcas_standby_behind_seconds": "only standbys have it; there is an alert, and `orcas status` says the same",
    "orcas_standby_sequence": "likewise",
    "orcas_cluster_owner": "only nodes of clusters have it; there is an alert, and `orcas cluster status` says the same",
    "orcas_cluster_term": "likewise",
    "orcas_cluster_position": "likewise",
    "orcas_cluster_silent_seconds": "likewise; it is near zero unless the first alert is near",
    "orcas_cluster_score": "`orcas cluster status` says the same, with that of the owner",
    "orcas_cluster_reads": "few servers are nodes",
    "orcas_cluster_passed_requests": "few servers are nodes; what fails on the way is among the errors of clients",
    "orcas_lockouts": "the log says which address it is, and there is an alert on wrong signatures",
    "http_requests": "what orcas_requests says, for other people's dashboards",
    "http_request_duration_seconds": "what orcas_request_duration_seconds says, for other people's dashboards",
    "crypto_cache_hit_rate": "since the start; the panel of the caches has the data keys as they are now",
    "orcas_scrub_passes": "one a day; the panel of the scrub shows where the pass is",
    "orcas_origin_fetches": "few servers have origins, and `orcas origin show` says the same",
    "orcas_origin_stored_bytes": "likewise",
    "orcas_replication_keys": "few servers replicate, and `orcas replication status` says the same",
    "orcas_replication_failures": "likewise",
    "orcas_replication_sent_bytes": "likewise",
    "orcas_replication_exceptions": "likewise; there is an alert",
    "orcas_replication_pending": "likewise",
    "orcas_replication_pending_bytes": "likewise",
    "orcas_replication_behind_seconds": "likewise; there is an alert",
    "orcas_identities_damaged": "there is hardly ever one, and the log of each start names it",
    "process_start_time_seconds": "for readers that compare two pages",
    "orcas_task_running": "for the alert on tasks that are overdue",
    "orcas_task_interval_seconds": "a setting, for the same alert",
    "orcas_task_next_run_timestamp_seconds": "what `orcas tasks` shows",
    "orcas_tls_certificate_expiry_timestamp_seconds": "for the alert on certificates that end",
    "orcas_tls_certificate_reload_failed": "for the alert on certificates that cannot be used",
}
GRAFANA: Final = {"$instance", "$__rate_interval", "$source"}


def yaml_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_ask_for_metrics_that_exist(path: Path) -> None:
    queries = queries_of_dashboard(path)
    assert len(queries) > 20
    for query in queries:
        assert flaws(query) == [], query
        assert set(re.findall(r"\$\w+", query)) <= GRAFANA


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_panels_of_dashboards_do_not_overlap(path: Path) -> None:
    panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_metric_is_on_a_dashboard_or_is_known_not_to_be() -> None:
    shown = {name for path in DASHBOARDS for query in queries_of_dashboard(path) for name in families(query)}
    assert {name for name, *_ in METRICS} - shown == set(NOT_SHOWN)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_legends_tell_servers_apart(path: Path) -> None:
    for query, legend in targets_of_dashboard(path):
        assert keeps(query, "instance") == ("{{instance}}" in legend), query
        labels = set(re.findall(r"{{(\w+)}}", legend))
        assert all(keeps(query, label) for label in labels), query


def test_alerts_ask_for_metrics_that_exist() -> None:
    queries = queries_of_rules(RULES)
    assert len(queries) > 10
    for query in queries:
        assert flaws(query) == [], query


def test_every_alert_is_tested_and_says_what_to_do() -> None:
    tested = (RULES.with_suffix("").with_suffix(".rules.test.yml")).read_text(encoding="utf-8")
    guides = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "operations").glob("*.md")]
    for rule in (rule for group in yaml_of(RULES)["groups"] for rule in group["rules"]):
        assert rule["alert"] in tested
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}
        for section in re.findall(r"Operations guide: ([^.]+)\.", rule["annotations"]["description"]):
            assert any(guide.startswith(f"# {section}\n") for guide in guides), section


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("rate(orcas_requests_total[5m])", []),
        ('sum by (operation) (rate(orcas_requests_total{result="5xx"}[5m]))', []),
        ("rate(orcas_absent_total[5m])", ["orcas_absent_total"]),
        ("orcas_requests_total", ["orcas_requests_total"]),
        ("rate(orcas_requests_in_flight[5m])", ["orcas_requests_in_flight"]),
        ("orcas_request_duration_seconds", ["orcas_request_duration_seconds"]),
        ('orcas_store_state{kind="ok"}', ["orcas_store_state"]),
        ("sum by (kind) (rate(orcas_requests_total[5m]))", ["kind"]),
        ('rate(orcas_requests_total{result="500"}[5m])', ["500"]),
        ('rate(orcas_errors_total{code=~"NoSuchKey|NoSuchName"}[5m])', ["NoSuchName"]),
        ('rate(orcas_requests_total{operation!="GetObjet"}[5m])', ["GetObjet"]),
        ('orcas_store_state{state="read_only"}', ["read_only"]),
        ('orcas_files{kind="log"}', ["kind"]),
        ('orcas_task_running{task="scrub"}', []),
        ('orcas_task_running{task="scrubs"}', ["scrubs"]),
        ("orcas_event_gaps_total > 0 unless orcas_event_gaps_total offset 15m", []),
        ("orcas_event_gaps_total > 1", ["orcas_event_gaps_total"]),
        ("orcas_disk_free_bytes > 0 unless orcas_disk_free_bytes offset 15m", []),
    ],
)
def test_wrong_queries_are_found(query: str, wrong: list[str]) -> None:
    found = flaws(query)
    assert len(found) == len(wrong)
    assert all(name in flaw for name, flaw in zip(wrong, found, strict=True))


def test_only_settings_that_exist_are_named() -> None:
    named: set[str] = set()
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            found = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]*[A-Z0-9]\b", path.read_text(encoding="utf-8")))
            assert found <= VARIABLES, path
            named |= found
    assert {"ORCAS_DATA", "ORCAS_METRICS_TOKEN_FILE"} <= named


def test_the_parts_of_the_compose_file_fit_together() -> None:
    document = yaml_of(DEPLOY / "compose.yaml")
    services = document["services"]
    assert set(services) == {"orcas", "prometheus", "grafana"}
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(document["secrets"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_dir() if source.startswith(".") else source in document["volumes"], volume
    build = services["orcas"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Containerfile")
    [job] = yaml_of(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["orcas:9000"]}]
    assert job["authorization"]["credentials_file"] == services["orcas"]["environment"]["ORCAS_METRICS_TOKEN_FILE"]
    [source] = yaml_of(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_the_parts_of_the_compose_file_of_a_cluster_fit_together() -> None:
    document = yaml_of(DEPLOY / "cluster" / "compose.yaml")
    services = document["services"]
    nodes = {name: service for name, service in services.items() if name != "database"}
    assert set(nodes) == {"node1", "node2"}
    addresses = [node["networks"]["nodes"]["ipv4_address"] for node in nodes.values()]
    for name, node in nodes.items():
        assert node["environment"]["ORCAS_CLUSTER_URL"] == f"http://{name}:9000"
        assert node["environment"]["ORCAS_TRUSTED_PROXIES"].split(",") == addresses
        assert node["volumes"] == [f"{name}:/data"]
        assert all(port.startswith("127.0.0.1:") for port in node["ports"])
        assert (DEPLOY / "cluster" / node["build"]["context"] / node["build"]["dockerfile"]).is_file()
        assert "@database/" in node["command"][0]
    for service in services.values():
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(document["volumes"])
        assert set(service["secrets"]) == set(document["secrets"])
    subnet = document["networks"]["nodes"]["ipam"]["config"][0]["subnet"]
    assert all(ipaddress.ip_address(each) in ipaddress.ip_network(subnet) for each in addresses)


def test_the_parts_of_the_manifests_of_a_cluster_fit_together() -> None:
    text = (DEPLOY / "cluster" / "kubernetes.yaml").read_text(encoding="utf-8")
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    nodes = objects["StatefulSet", "orcas-cluster"]["spec"]
    [container] = nodes["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    (among,) = [each for each in objects.values() if each["kind"] == "Service" and "clusterIP" in each["spec"]]
    assert nodes["serviceName"] == among["metadata"]["name"]
    assert variables["ORCAS_CLUSTER_URL"] == f"http://$(POD_NAME).{nodes['serviceName']}:9000"
    labels = nodes["template"]["metadata"]["labels"]
    for (kind, _), each in objects.items():
        selector = each["spec"]["selector"]
        assert (selector if kind == "Service" else selector["matchLabels"]) == labels
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in nodes["template"]["spec"]["volumes"]}
    assert set(mounts) == volumes | {claim["metadata"]["name"] for claim in nodes["volumeClaimTemplates"]}
    assert variables["ORCAS_CLUSTER_LOG_FILE"] == f"{mounts['secrets']}/log"
    assert variables["ORCAS_DATA"] == f"{mounts['data']}/store"
    guide = (ROOT / "docs" / "deployment" / "kubernetes.md").read_text(encoding="utf-8")
    assert "create secret generic orcas-cluster --from-literal=log=" in guide


def test_the_image_is_made_of_files_that_exist() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8")
    sent = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists()
                assert name in sent, f"{name} does not reach the builder"
    rust = re.search(r'rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert rust is not None
    assert f"FROM rust:{rust[1]}-" in "\n".join(lines)


def test_the_image_has_what_traces_backups_and_targets_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {"otel", "backup", "kafka", "nats", "acme"}
    assert wanted <= set(extras)
    for path, marker in (
        (DEPLOY / "Containerfile", "/tmp/wheel/"),
        (ROOT / "docs" / "deployment" / "systemd.md", "/opt/orcas/bin/pip"),
    ):
        [line] = [
            line for line in path.read_text(encoding="utf-8").splitlines() if "install" in line and marker in line
        ]
        found = re.search(r"\[([\w,]+)\]", line)
        assert found is not None, path
        assert set(found[1].split(",")) == wanted, path


def test_a_reload_cannot_end_the_service_for_good() -> None:
    unit = (DEPLOY / "orcas.service").read_text(encoding="utf-8").splitlines()
    reload = next(line for line in unit if line.startswith("ExecReload="))
    # A clean end for systemd, so Restart=on-failure alone would leave the service down.
    assert "-HUP" not in reload or "RestartForceExitStatus=SIGHUP" in unit


def analyze(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_service_is_valid_and_has_few_rights(tmp_path: Path) -> None:
    # `verify` asks for the program, which is not installed in /opt here.
    text = (DEPLOY / "orcas.service").read_text(encoding="utf-8")
    unit = tmp_path / "orcas.service"
    unit.write_text(text.replace("/opt/orcas/bin/orcas", "/bin/true"), encoding="utf-8")
    assert "orcas.service" not in analyze("verify", "--man=no", unit)
    # 0 is best and 10 is worst; the worst that passes is what network and disk need.
    analyze("security", "--offline=true", "--threshold=15", unit)
