"""MinIO's command line and variables, as settings: each is translated, named as without effect, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orcas.cli.server.minio import _write_targets
from orcas.errors import ConfigurationError, UsageError
from orcas.minio.environment import wanted
from orcas.minio.notify import Targets
from orcas.settings.config import resolve
from orcas.targets.file import read_targets
from orcas.targets.kinds import KafkaTarget, NatsTarget, Target, Tls, WebhookTarget

KAFKA = {
    "MINIO_NOTIFY_KAFKA_ENABLE_A": "on", "MINIO_NOTIFY_KAFKA_BROKERS_A": "a:1", "MINIO_NOTIFY_KAFKA_TOPIC_A": "t",
}  # fmt: skip
KEYS = {"MINIO_ROOT_USER": "operator", "MINIO_ROOT_PASSWORD": "a-long-secret"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where MinIO looks for certificates.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["/data"],
        ["--console-address", ":9001", "/data"],
        ["/data", "--console-address=:9001"],
        ["-console-address", "0.0.0.0:9001", "--address", ":9000", "/data"],
        ["--", "/data"],
    ],
)
def test_a_command_line_is_read_in_any_order(arguments: list[str]) -> None:
    made = wanted(arguments, {})
    assert made.settings["data"] == "/data"
    assert made.settings["port"] == 9000
    assert made.settings["host"] in ("::", "0.0.0.0")
    has_console = any("console" in argument for argument in arguments)
    assert made.settings.get("console_port") == (9001 if has_console else None)
    assert (made.unused, made.has_default_keys) == ([], True)


def test_everything_that_is_made_is_a_setting() -> None:
    variables = {
        **KEYS,
        "MINIO_SITE_REGION": "eu-central-1",
        "MINIO_DOMAIN": "s3.example.org,s3.example.net",
        "MINIO_BROWSER": "off",
        "MINIO_PROMETHEUS_AUTH_TYPE": "public",
        "MINIO_DEFAULT_BUCKETS": "logs, images:download;uploads:none public:public",
        "MINIO_KMS_SECRET_KEY": "key:" + "A" * 43 + "=",
        "MINIO_KMS_AUTO_ENCRYPTION": "on",
    }
    made = wanted(["/data", "--address", "[::1]:9100"], variables)
    settings = resolve(made.settings, ambient=False).settings
    assert (settings.host, settings.port, settings.region) == ("::1", 9100, "eu-central-1")
    assert settings.domains == ("s3.example.org", "s3.example.net")
    assert made.buckets == ["logs", "images:download", "uploads", "public:public"]
    assert (settings.root_access_key, settings.root_secret_key) == ("operator", "a-long-secret")
    assert (settings.console, settings.metrics_public, settings.encrypt_by_default) == (False, True, True)
    assert settings.master_key == "A" * 43 + "="
    assert (settings.minio, settings.public_access) == (True, "open")
    assert (made.unused, made.has_default_keys) == ([], False)


def test_what_has_no_effect_is_named() -> None:
    variables = {"MINIO_SCANNER_SPEED": "slow", "MINIO_SERVER_URL": "https://s3.example.org", "MINIO_EMPTY": ""}
    made = wanted(["--quiet", "--memlimit", "2GiB", "/data"], variables)
    assert made.unused == ["--quiet", "--memlimit", "MINIO_SCANNER_SPEED", "MINIO_SERVER_URL"]


def test_the_console_has_the_addresses_of_the_server() -> None:
    assert wanted(["--console-address", ":9001", "/data"], {}).unused == []
    one = ["--address", "127.0.0.1:9000", "--console-address", "127.0.0.1:9001", "/data"]
    assert wanted(one, {}).unused == []
    made = wanted(["--console-address", "127.0.0.1:9001", "/data"], {})
    assert made.unused == ["the address 127.0.0.1 of --console-address"]


def test_secrets_come_from_files(tmp_path: Path) -> None:
    user, password = tmp_path / "user", tmp_path / "password"
    user.write_text("operator\n")
    password.write_text("a-long-secret\n")
    made = wanted(["/data"], {"MINIO_ROOT_USER_FILE": str(user), "MINIO_ROOT_PASSWORD_FILE": str(password)})
    assert made.settings["root_access_key"] == "operator"
    assert made.settings["root_secret_key"] == "a-long-secret"
    with pytest.raises(ConfigurationError, match="MINIO_ROOT_USER_FILE names /nowhere, which cannot be read"):
        wanted(["/data"], {"MINIO_ROOT_USER_FILE": "/nowhere"})


def test_a_file_of_variables_counts_more_than_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    path.write_text('# who\nexport MINIO_ROOT_USER="operator"\nMINIO_ROOT_PASSWORD=a-long-secret\n\nOTHER=1\n')
    made = wanted(["/data"], {"MINIO_CONFIG_ENV_FILE": str(path), "MINIO_ROOT_USER": "another"})
    assert made.settings["root_access_key"] == "operator"
    path.write_text("nonsense\n")
    with pytest.raises(ConfigurationError, match="has a line that is not NAME=VALUE"):
        wanted(["/data"], {"MINIO_CONFIG_ENV_FILE": str(path)})


def test_the_older_names_of_the_keys_count_if_the_newer_are_not_there() -> None:
    older = {"MINIO_ACCESS_KEY": "former", "MINIO_SECRET_KEY": "former-secret"}
    assert wanted(["/data"], older).settings["root_access_key"] == "former"
    made = wanted(["/data"], older | KEYS)
    assert (made.settings["root_access_key"], made.unused) == ("operator", [])


def test_certificates_are_those_of_the_directory(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "s3.example.org", tmp_path / "CAs"):
        place.mkdir(exist_ok=True)
        (place / "public.crt").touch()
    for place in (tmp_path, tmp_path / "s3.example.org"):
        (place / "private.key").touch()
    made = wanted(["--certs-dir", str(tmp_path), "/data"], {})
    assert made.settings["tls_cert_file"] == [str(tmp_path / at / "public.crt") for at in (".", "s3.example.org")]
    assert made.settings["tls_key_file"] == [str(tmp_path / at / "private.key") for at in (".", "s3.example.org")]
    assert "tls_cert_file" not in wanted(["/data"], {}).settings
    with pytest.raises(ConfigurationError, match="/nowhere is not a directory"):
        wanted(["-S", "/nowhere", "/data"], {})


def targets_file(directory: Path, targets: Targets) -> dict[str, Target]:
    """As the command writes it, and the server reads it."""
    return read_targets(_write_targets(directory, targets))


def test_webhooks_that_are_enabled_get_events(tmp_path: Path) -> None:
    variables = {
        "MINIO_NOTIFY_WEBHOOK_ENABLE_HOOK": "on",
        "MINIO_NOTIFY_WEBHOOK_ENDPOINT_HOOK": "http://receiver:8080/events",
        "MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_HOOK": "token",
        "MINIO_NOTIFY_WEBHOOK_ENABLE_OFF": "off",
        "MINIO_NOTIFY_WEBHOOK_ENDPOINT_OFF": "http://receiver:8080/others",
        "MINIO_NOTIFY_WEBHOOK_ENABLE": "on",
        "MINIO_NOTIFY_WEBHOOK_ENDPOINT": "http://receiver:8080/",
        "MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_HOOK": "/queue",
        "MINIO_NOTIFY_AMQP_ENABLE_Q": "on",
    }
    made = wanted(["/data"], variables)
    found = targets_file(tmp_path, made.targets)
    assert set(found) == {"HOOK", "_"}
    hook, unnamed = found["HOOK"], found["_"]
    assert isinstance(hook, WebhookTarget)
    assert isinstance(unnamed, WebhookTarget)
    assert (hook.address, hook.authorization) == ("http://receiver:8080/events", "Bearer token")
    assert (unnamed.address, unnamed.authorization) == ("http://receiver:8080/", None)
    assert {(target.private, target.format) for target in found.values()} == {(True, "minio")}
    assert made.unused == ["MINIO_NOTIFY_AMQP_ENABLE_Q", "MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_HOOK"]
    assert "token" not in repr(made)


def test_brokers_of_kafka_get_events(tmp_path: Path) -> None:
    variables = {
        "MINIO_NOTIFY_KAFKA_ENABLE_PRIMARY": "on",
        "MINIO_NOTIFY_KAFKA_BROKERS_PRIMARY": "kafka-1:9092, kafka-2:9092",
        "MINIO_NOTIFY_KAFKA_TOPIC_PRIMARY": "bucketevents",
        "MINIO_NOTIFY_KAFKA_SASL_PRIMARY": "on",
        "MINIO_NOTIFY_KAFKA_SASL_USERNAME_PRIMARY": "minio",
        "MINIO_NOTIFY_KAFKA_SASL_PASSWORD_PRIMARY": "of-the-broker",
        "MINIO_NOTIFY_KAFKA_SASL_MECHANISM_PRIMARY": "sha512",
        "MINIO_NOTIFY_KAFKA_TLS_PRIMARY": "on",
        "MINIO_NOTIFY_KAFKA_TLS_SKIP_VERIFY_PRIMARY": "on",
        "MINIO_NOTIFY_KAFKA_QUEUE_LIMIT_PRIMARY": "10",
        "MINIO_NOTIFY_KAFKA_ENABLE": "on",
        "MINIO_NOTIFY_KAFKA_BROKERS": "kafka:9092",
        "MINIO_NOTIFY_KAFKA_TOPIC": "others",
    }
    made = wanted(["/data"], variables)
    found = targets_file(tmp_path, made.targets)
    primary, unnamed = found["PRIMARY"], found["_"]
    assert isinstance(primary, KafkaTarget)
    assert isinstance(unnamed, KafkaTarget)
    assert (primary.brokers, primary.topic) == (("kafka-1:9092", "kafka-2:9092"), "bucketevents")
    assert (primary.sasl, primary.user, primary.password) == ("SCRAM-SHA-512", "minio", "of-the-broker")
    assert (primary.tls, primary.format, primary.private) == (Tls(), "minio", True)
    assert (unnamed.brokers, unnamed.tls, unnamed.sasl) == (("kafka:9092",), None, None)
    assert made.unused == [
        "MINIO_NOTIFY_KAFKA_QUEUE_LIMIT_PRIMARY", "MINIO_NOTIFY_KAFKA_TLS_SKIP_VERIFY_PRIMARY",
    ]  # fmt: skip


def test_streams_of_nats_get_events(tmp_path: Path) -> None:
    variables = {
        "MINIO_NOTIFY_NATS_ENABLE_1": "on", "MINIO_NOTIFY_NATS_ADDRESS_1": "nats:4222",
        "MINIO_NOTIFY_NATS_SUBJECT_1": "events", "MINIO_NOTIFY_NATS_JETSTREAM_1": "on",
        "MINIO_NOTIFY_NATS_USERNAME_1": "minio", "MINIO_NOTIFY_NATS_PASSWORD_1": "of-the-server",
        "MINIO_NOTIFY_NATS_PING_INTERVAL_1": "5",
        "MINIO_NOTIFY_NATS_ENABLE_2": "on", "MINIO_NOTIFY_NATS_ADDRESS_2": "nats:4222",
        "MINIO_NOTIFY_NATS_SUBJECT_2": "events", "MINIO_NOTIFY_NATS_JETSTREAM_2": "on",
        "MINIO_NOTIFY_NATS_TOKEN_2": "token", "MINIO_NOTIFY_NATS_TLS_2": "on",
    }  # fmt: skip
    made = wanted(["/data"], variables)
    found = targets_file(tmp_path, made.targets)
    one, two = found["1"], found["2"]
    assert isinstance(one, NatsTarget)
    assert isinstance(two, NatsTarget)
    assert (one.servers, one.subject, one.user, one.password) == (
        ("nats://nats:4222",),
        "events",
        "minio",
        "of-the-server",
    )
    assert (two.servers, two.token, two.tls) == (("tls://nats:4222",), "token", Tls())
    assert made.unused == ["MINIO_NOTIFY_NATS_PING_INTERVAL_1"]


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        ([], {}, "needs the directory of the store"),
        (["/data1", "/data2"], {}, "Orcas keeps a store in one directory of one machine"),
        (["/data{1...4}"], {}, "Orcas keeps a store in one directory"),
        (["http://node/data"], {}, "Orcas keeps a store in one directory"),
        (["--ftp", "address=:8021", "/data"], {}, "--ftp: there is no FTP server"),
        (["--nonsense", "/data"], {}, "--nonsense is not a flag of `minio server`"),
        (["/data", "--address"], {}, "--address needs a value"),
        (["/data", "--address", "9000"], {}, "'9000' is not an address"),
        (["/data", "--address", ":66000"], {}, "':66000' is not an address"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], variables: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        wanted(arguments, variables)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"MINIO_ADDRESS": "9000"}, "MINIO_ADDRESS must be ADDRESS:PORT or :PORT, not '9000'"),
        ({"MINIO_CONSOLE_PORT_NUMBER": "0"}, "The port of MINIO_CONSOLE_PORT_NUMBER must be from 1 to 65535, not 0"),
        ({"MINIO_ROOT_USER": "operator"}, "MINIO_ROOT_USER and MINIO_ROOT_PASSWORD are one pair"),
        ({"MINIO_ROOT_USER": "operator", "MINIO_ROOT_PASSWORD": "short"}, "MINIO_ROOT_PASSWORD at least 8"),
        ({"MINIO_ROOT_USER": "an operator", "MINIO_ROOT_PASSWORD": "a-long-secret"}, "MINIO_ROOT_USER must be"),
        ({"MINIO_BROWSER": "perhaps"}, "MINIO_BROWSER must be on or off"),
        ({"MINIO_PROMETHEUS_AUTH_TYPE": "none"}, "MINIO_PROMETHEUS_AUTH_TYPE must be jwt or public"),
        ({"MINIO_DEFAULT_BUCKETS": "a:all"}, "behind a bucket stands one of none, download, upload, public"),
        ({"MINIO_KMS_SECRET_KEY": "key"}, "MINIO_KMS_SECRET_KEY must be NAME:KEY"),
        ({"MINIO_KMS_AUTO_ENCRYPTION": "on"}, "MINIO_KMS_AUTO_ENCRYPTION needs a key"),
        ({"MINIO_KMS_KES_ENDPOINT": "https://kes:7373"}, "keys of KES are not used"),
        ({"MINIO_WORM": "on"}, "lock buckets instead"),
        ({"MINIO_POLICY_PLUGIN_URL": "http://opa"}, "access decisions are not left to another server"),
        ({"MINIO_NOTIFY_WEBHOOK_ENABLE_A": "on"}, "enabled without MINIO_NOTIFY_WEBHOOK_ENDPOINT_A: set it"),
        ({"MINIO_NOTIFY_WEBHOOK_ENABLE": "perhaps"}, "MINIO_NOTIFY_WEBHOOK_ENABLE must be on or off"),
        ({"MINIO_NOTIFY_KAFKA_ENABLE": "on"}, "enabled without MINIO_NOTIFY_KAFKA_BROKERS: set it"),
        (
            KAFKA | {"MINIO_NOTIFY_KAFKA_SASL_A": "on", "MINIO_NOTIFY_KAFKA_SASL_MECHANISM_A": "x"},
            "MINIO_NOTIFY_KAFKA_SASL_MECHANISM_A must be one of plain, sha256, sha512, not 'x'",
        ),
        (
            KAFKA | {"MINIO_NOTIFY_WEBHOOK_ENABLE_A": "on", "MINIO_NOTIFY_WEBHOOK_ENDPOINT_A": "http://a/"},
            "Two targets of events have the name A: rename one of them",
        ),
        ({"MINIO_NOTIFY_NATS_ENABLE_A": "on"}, "subject, and set MINIO_NOTIFY_NATS_JETSTREAM_A"),
    ],
)
def test_a_variable_that_would_leave_something_unprotected_is_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        wanted(["/data"], variables)
    assert message in str(refused.value)
    assert "a-long-secret" not in str(refused.value)


def test_the_disk_of_a_minio_server_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".minio.sys").mkdir()
    with pytest.raises(ConfigurationError, match="has the files of a MinIO server, which Orcas does not touch"):
        wanted([str(tmp_path)], {})


def test_directories_come_from_the_variable_of_services_too() -> None:
    assert wanted([], {"MINIO_VOLUMES": "/mnt/data"}).settings["data"] == "/mnt/data"
