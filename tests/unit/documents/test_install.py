"""What installs Orcas: the image, the chart and the workflows agree with the code and with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from orcas.admin import health
from orcas.settings.config import Settings

ROOT: Final = Path(__file__).parents[3]
IMAGE: Final = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
COMPOSE: Final = ROOT / "deploy" / "compose.yaml"
CHART: Final = ROOT / "deploy" / "helm" / "orcas"
STATEFUL_SET: Final = (CHART / "templates" / "statefulset.yaml").read_text(encoding="utf-8")
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# The jobs that may write something, which are those that publish.
WRITING: Final = {"release.yml": {"publish", "image", "site"}}
VERSION: Final = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
HEALTH: Final = "/_orcas/health"


def yaml_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_image_and_chart_have_the_version_of_the_package() -> None:
    chart = yaml_of(CHART / "Chart.yaml")
    label = re.search(r'org\.opencontainers\.image\.version="(.*)"', IMAGE)
    assert label is not None
    assert {chart["version"], chart["appVersion"], label[1]} == {VERSION}


def test_image_compose_file_and_chart_have_one_port() -> None:
    port = str(Settings().port)
    assert re.findall(r"^EXPOSE (\d+)$", IMAGE, re.MULTILINE) == [port]
    assert re.findall(r"containerPort: (\d+)", STATEFUL_SET) == [port]
    assert str(yaml_of(CHART / "values.yaml")["service"]["port"]) == port
    assert yaml_of(COMPOSE)["services"]["orcas"]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_image_and_chart_have_one_user() -> None:
    user = re.search(r"^USER (\d+):(\d+)$", IMAGE, re.MULTILINE)
    assert user is not None
    assert f"--uid {user[1]} " in IMAGE
    assert set(re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", STATEFUL_SET)) == {user[1]} == {user[2]}


def test_the_store_is_in_the_volume() -> None:
    assert "ENV ORCAS_DATA=/data " in IMAGE
    assert "\nVOLUME /data\n" in IMAGE
    assert yaml_of(COMPOSE)["services"]["orcas"]["volumes"] == ["data:/data"]
    assert re.search(r"name: ORCAS_DATA\n +value: /data/store\n", STATEFUL_SET)
    assert "mountPath: /data\n" in STATEFUL_SET


def test_probes_ask_for_paths_that_exist() -> None:
    router = health.router(lambda: pytest.fail("nobody asks"))
    paths = {f"{HEALTH}{getattr(route, 'path', '')}" for route in router.routes}
    asked = set(re.findall(rf"{HEALTH}/\w+", IMAGE + STATEFUL_SET))
    assert f"{HEALTH}/ready" in asked
    assert asked <= paths


def test_a_stop_leaves_time_to_drain() -> None:
    """Two minutes everywhere, which is more than requests in progress get."""
    unit = (ROOT / "deploy" / "orcas.service").read_text(encoding="utf-8")
    assert "TimeoutStopSec=2min\n" in unit
    assert yaml_of(COMPOSE)["services"]["orcas"]["stop_grace_period"] == "2m"
    assert "terminationGracePeriodSeconds: 120\n" in STATEFUL_SET
    assert Settings().drain_timeout_sec < 120


def rendered(*values: str) -> dict[str, Any]:
    """The objects of the chart with `values`, by their kind."""
    command = ["helm", "template", "store", CHART, *(f"--set={value}" for value in values)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {found["kind"]: found for found in yaml.safe_load_all(done.stdout) if found}


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize(
    ("values", "secret"),
    [
        ((), None),
        (("secrets.ORCAS_METRICS_TOKEN=0123456789abcdef",), "store"),
        (("existingSecret.name=mine", "existingSecret.keys={ORCAS_METRICS_TOKEN}"), "mine"),
    ],
)
def test_the_chart_mounts_secrets_and_has_few_rights(values: tuple[str, ...], secret: str | None) -> None:
    objects = rendered("settings.ORCAS_LOG_LEVEL=debug", "settings.ORCAS_DISK_RESERVE=5368709120", *values)
    assert set(objects) == {"StatefulSet", "Service"} | ({"Secret"} if secret == "store" else set())
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    assert variables.pop("ORCAS_LOG_LEVEL") == "debug"
    assert variables.pop("ORCAS_DISK_RESERVE") == "5368709120"
    assert variables.pop("ORCAS_DATA") == "/data/store"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    if secret is None:
        assert not variables
        assert "secrets" not in mounts
    else:
        assert variables == {"ORCAS_METRICS_TOKEN_FILE": f"{mounts['secrets']}/ORCAS_METRICS_TOKEN"}
        assert volumes["secrets"]["secret"]["secretName"] == secret
    claims = {claim["metadata"]["name"] for claim in objects["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    assert set(mounts) == set(volumes) | claims
    assert container["image"] == f"orcas-s3:{VERSION}"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    selector = objects["Service"]["spec"]["selector"]
    assert selector == objects["StatefulSet"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
def test_the_chart_turns_tls_on() -> None:
    pod = rendered("tlsSecret=mine")["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "tls"]
    assert variables["ORCAS_TLS_CERT_FILE"] == f"{mount['mountPath']}/tls.crt"
    assert variables["ORCAS_TLS_KEY_FILE"] == f"{mount['mountPath']}/tls.key"
    assert {"name": "tls", "secret": {"secretName": "mine", "defaultMode": 0o440}} in pod["volumes"]
    probes = [container[f"{name}Probe"]["httpGet"]["scheme"] for name in ("startup", "liveness", "readiness")]
    assert probes == ["HTTPS"] * 3


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_use_actions_by_their_commit_and_name_its_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    for action in used:
        own = re.fullmatch(r"\./(\.github/(?:workflows/[a-z]+\.yml|actions/[a-z-]+))", action)
        assert (ROOT / own[1]).exists() if own else re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action), action


def test_workflows_use_one_commit_of_each_action() -> None:
    used = {action for path in WORKFLOWS for action in re.findall(r"uses: (.*@.*)", path.read_text(encoding="utf-8"))}
    assert len({action.partition("@")[0] for action in used}) == len(used)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_and_run_sections_that_exist(path: Path) -> None:
    workflow = yaml_of(path)
    assert workflow["permissions"] == {"contents": "read"}
    writing = {name for name, job in workflow["jobs"].items() if "write" in job.get("permissions", {}).values()}
    assert writing == WRITING.get(path.name, set())
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for section in re.findall(r"\.ci/run ([a-z-]+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^    {section}\)", script, re.MULTILINE), section
