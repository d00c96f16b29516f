"""LocalStack's variables, as settings."""

from __future__ import annotations

import pytest

from orcas.errors import ConfigurationError, UsageError
from orcas.localstack.environment import wanted
from orcas.settings.config import resolve


def test_without_variables_it_is_localstack_in_memory() -> None:
    made = wanted([], {})
    settings = resolve(made.settings, ambient=False).settings
    assert (settings.port, settings.memory, settings.localstack) == (4566, True, True)
    assert (settings.root_access_key, settings.root_secret_key) == ("test", "test")
    assert settings.domains == ("s3.localhost.localstack.cloud", "s3.us-east-1.localhost.localstack.cloud")
    assert (made.init, made.unused, made.absent_services) == ("/etc/localstack/init", [], [])
    # Not LocalStack's default, but it can be asked for.
    assert not settings.any_signature
    assert wanted([], {"S3_SKIP_SIGNATURE_VALIDATION": "1"}).settings["any_signature"] is True


def test_variables_are_read_with_and_without_prefix() -> None:
    variables = {
        "GATEWAY_LISTEN": "127.0.0.1:4567,127.0.0.1:443",
        "LOCALSTACK_DEFAULT_REGION": "eu-central-1",
        "SERVICES": "s3, sqs,iam,dynamodb:4569",
        "LOCALSTACK_HOST": "S3.example.org:4566",
        "PERSISTENCE": "1",
        "DEBUG": "1",
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "mine-too",
        "LOCALSTACK_AUTH_TOKEN": "ls-token",
        "LAMBDA_EXECUTOR": "docker",
        "EMPTY": "",
    }
    made = wanted(["start"], variables)
    assert made.settings["data"] == "/var/lib/localstack"
    assert (made.settings["host"], made.settings["port"]) == ("127.0.0.1", 4567)
    assert (made.settings["region"], made.settings["log_level"]) == ("eu-central-1", "debug")
    assert made.settings["root_access_key"] == "mine"
    assert "s3.eu-central-1.s3.example.org" in made.settings["domains"]  # type: ignore[operator]
    assert made.absent_services == ["sqs", "dynamodb:4569"]
    assert made.unused == ["LAMBDA_EXECUTOR", "LOCALSTACK_AUTH_TOKEN"]


@pytest.mark.parametrize(
    ("variables", "place"),
    [({}, {"memory": True}), ({"PERSISTENCE": "0"}, {"memory": True}), ({"DATA_DIR": "/data"}, {"data": "/data"})],
)
def test_everything_is_in_memory_unless_it_is_to_stay(variables: dict[str, str], place: dict[str, object]) -> None:
    settings = wanted([], variables).settings
    assert {name: settings.get(name) for name in ("memory", "data") if name in settings} == place


@pytest.mark.parametrize("arguments", [["stop"], ["start", "-d"], ["status", "services"], ["wait"]])
def test_other_commands_are_refused(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="Only `localstack start` is here"):
        wanted(arguments, {})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GATEWAY_LISTEN": "nowhere"}, "GATEWAY_LISTEN must be ADDRESS:PORT"),
        ({"EDGE_PORT": "70000"}, "must be from 0 to 65535"),
        ({"PERSISTENCE": "perhaps"}, "PERSISTENCE must be 1 or 0"),
        ({"LOCALSTACK_HOST": "http://localhost:4566"}, "LOCALSTACK_HOST must be HOST or HOST:PORT, not 'http"),
        ({"LOCALSTACK_HOST": "localhost:"}, "LOCALSTACK_HOST must be HOST or HOST:PORT"),
        ({"LOCALSTACK_HOST": "localhost:70000"}, "LOCALSTACK_HOST must be HOST or HOST:PORT"),
        ({"LOCALSTACK_HOSTNAME": "local host"}, "LOCALSTACK_HOSTNAME must be HOST or HOST:PORT"),
        ({"DEFAULT_REGION": "Europe!"}, "DEFAULT_REGION must be"),
    ],
)
def test_a_wrong_variable_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        wanted([], variables)
    assert message in str(refused.value)
