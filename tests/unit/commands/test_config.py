"""Settings: where they come from, their limits, and the messages for wrong ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orcas.errors import ConfigurationError, UsageError
from orcas.settings import config
from orcas.settings.config import DEV_SECRET_KEY, SETTINGS, Settings, is_loopback, resolve, variable_name


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings but those of the test: the working directory and the user's and machine's directories are empty."""
    for name in list(config.os.environ):
        if name.startswith("ORCAS_"):
            monkeypatch.delenv(name)
    for directory in ("work", "user/orcas", "system", "data"):
        (tmp_path / directory).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "system" / "orcas.toml")
    return tmp_path


def refused(**overrides: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolve(overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_in_bounds_and_need_nothing(places: Path) -> None:
    resolved = resolve()
    assert resolved.settings.data == places / "data" / "orcas"
    assert set(resolved.sources.values()) == {"default"}
    for field in dataclasses.fields(Settings):
        setting = SETTINGS[field.name]
        if field.default is not None:
            assert setting.low is None or setting.low <= field.default
            assert setting.high is None or field.default <= setting.high
            assert not setting.choices or field.default in setting.choices


def test_the_nearest_source_wins(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "system/orcas.toml").write_text("port = 1\nregion = 'system'\nchunk_size = 65536\nlog_level = 'debug'\n")
    (places / "user/orcas/orcas.toml").write_text("port = 2\nregion = 'user'\nchunk_size = 65537\n")
    (places / "work/orcas.toml").write_text("port = 3\nregion = 'work'\n")
    monkeypatch.setenv("ORCAS_PORT", "4")
    resolved = resolve({"port": "5", "host": None})
    settings = resolved.settings
    assert (settings.port, settings.region, settings.chunk_size, settings.log_level) == (5, "work", 65537, "debug")
    assert resolved.sources["port"] == "command line"
    assert resolved.sources["region"] == str(places / "work/orcas.toml")
    assert resolve().sources["port"] == "ORCAS_PORT"


def test_nothing_ambient_is_read_when_asked_not_to(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "work/orcas.toml").write_text("port = 3\n")
    monkeypatch.setenv("ORCAS_REGION", "elsewhere")
    settings = resolve({"host": "localhost"}, ambient=False).settings
    assert (settings.port, settings.region) == (9000, "us-east-1")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("port", "65536", "from 0 to 65535, not '65536'"),
        ("port", "-1", "from 0"),
        ("port", "9e3", "a whole number"),
        ("port", "", "is empty"),
        ("chunk_size", "67108865", "bytes"),
        ("durability", "none", "one of sync, interval, buffered, unsafe-none, not 'none'"),
        ("batch_write_enabled", "perhaps", "true or false"),
        ("write_buffer_window_sec", "nan", "a number"),
        ("write_buffer_window_sec", "0", "seconds"),
        ("region", "US EAST", "lower-case"),
        ("domains", "a..b", "host names"),
        ("domains", "-a", "host names"),
        ("website_host", "Web.test", "lower case"),
        ("website_host", "localhost", "S3 clients use localhost"),
        ("max_head_size", "1", "from 8192 to 262144 bytes"),
        ("ref_level", "3", "from 0 to 2"),
        ("instant_upload_enabled", "2", "true or false"),
        ("reclaim_bytes_per_sec", "-1", "bytes"),
        ("scrub_bytes_per_sec", "10M", "a whole number"),
    ],
)
def test_wrong_values_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    monkeypatch.setenv(variable_name(name), value)
    message = refused()
    assert message.startswith(variable_name(name))
    assert says in message


@pytest.mark.parametrize("name", ["ORCAS_PROT", "ORCAS_RECLAIM", "ORCAS_MEMORY", "ORCAS_PORT_FILE"])
def test_unknown_variables_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    assert refused().startswith(f"{name} is not a setting")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ORCAS_PROT", "did you mean ORCAS_PORT?"),
        ("ORCAS_DURABILTY", "did you mean ORCAS_DURABILITY?"),
        ("ORCAS_ROOT_ACESS_KEY", "did you mean ORCAS_ROOT_ACCESS_KEY?"),
        ("ORCAS_FOO", "`orcas config show` lists all settings."),
        ("ORCAS_KEY", "lists all settings."),
        ("ORCAS_RECLAIM_RATE", "lists all settings."),
        ("ORCAS_SERVICE_HOST", "Kubernetes sets it for a service called orcas"),
        ("ORCAS_PORT_9000_TCP_ADDR", "Kubernetes sets it for a service called orcas"),
    ],
)
def test_only_a_slip_of_the_keyboard_is_put_right(monkeypatch: pytest.MonkeyPatch, name: str, says: str) -> None:
    monkeypatch.setenv(name, "1")
    message = refused()
    assert says in message
    assert ("did you mean" in message) == ("did you mean" in says)


def test_what_the_command_line_has_wrong_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCAS_PORT", "high")
    for overrides, kind in (({"port": "high"}, UsageError), ({}, ConfigurationError)):
        with pytest.raises(ConfigurationError) as caught:
            resolve(overrides)
        assert type(caught.value) is kind
    with pytest.raises(ConfigurationError) as caught:
        resolve({"port": "high"}, ambient=False)
    assert type(caught.value) is ConfigurationError


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1", "did you mean port?"),
        ("dev = true", "not a setting"),
        ("port = [", "cannot be read"),
        ("port = true", "whole"),
        ("master_key_file = 'key'", "only a variable can: set ORCAS_MASTER_KEY_FILE"),
    ],
)
def test_wrong_files_are_refused(places: Path, text: str, says: str) -> None:
    (places / "work/orcas.toml").write_text(text)
    message = refused()
    assert "orcas.toml" in message
    assert says in message


def test_values_of_files_have_types(places: Path) -> None:
    (places / "work/orcas.toml").write_text(
        "batch_write_enabled = false\nwrite_buffer_window_sec = 2.5\ndomains = ['S3.Example.org.', 'b']\ndata = '~/x'\n"
    )
    settings = resolve().settings
    assert settings.batch_write_enabled is False
    assert settings.write_buffer_window_sec == 2.5
    assert settings.domains == ("s3.example.org", "b")
    assert settings.data == Path("~/x").expanduser()


def test_secrets_come_from_files_and_are_never_shown(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "secret").write_text("a-long-secret-key\n")
    monkeypatch.setenv("ORCAS_ROOT_ACCESS_KEY", "somebody")
    monkeypatch.setenv("ORCAS_ROOT_SECRET_KEY_FILE", str(places / "secret"))
    settings = resolve().settings
    assert settings.root_secret_key == "a-long-secret-key"
    assert "a-long-secret-key" not in repr(settings)
    monkeypatch.setenv("ORCAS_ROOT_SECRET_KEY", "another-secret-key")
    assert "both set" in refused()
    monkeypatch.delenv("ORCAS_ROOT_SECRET_KEY_FILE")
    monkeypatch.setenv("ORCAS_ROOT_SECRET_KEY", "short")
    assert "short" not in refused()
    monkeypatch.delenv("ORCAS_ROOT_SECRET_KEY")
    assert "both or neither" in refused()
    monkeypatch.setenv("ORCAS_ROOT_SECRET_KEY_FILE", str(places / "absent"))
    assert "cannot be read" in refused()


def test_published_keys_stay_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve({"dev": True}).settings.root_secret_key == DEV_SECRET_KEY
    assert "loopback" in refused(dev=True, host="0.0.0.0")
    monkeypatch.setenv("ORCAS_ROOT_ACCESS_KEY", "somebody")
    monkeypatch.setenv("ORCAS_ROOT_SECRET_KEY", DEV_SECRET_KEY)
    assert resolve().settings.root_access_key == "somebody"
    assert "published" in refused(host="::")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("localhost.example.org", False), ("", False)],
)  # fmt: skip
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_combinations_that_contradict_themselves_are_refused() -> None:
    assert "together" in refused(memory=True, data="/somewhere")
    assert "unsafe-none" in refused(memory=True, durability="sync")
    assert "MAX_IDLE" in refused(db_max_open_conns=5)
    assert resolve({"memory": True}).settings.durability == "unsafe-none"
    assert "not a setting" in refused(prot=1)


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCAS_TEST_A", "1")
    monkeypatch.delenv("ORCAS_TEST_B", raising=False)
    with config.environment({"ORCAS_TEST_A": None, "ORCAS_TEST_B": "2"}):
        assert "ORCAS_TEST_A" not in config.os.environ
        assert config.os.environ["ORCAS_TEST_B"] == "2"
    assert config.os.environ["ORCAS_TEST_A"] == "1"
    assert "ORCAS_TEST_B" not in config.os.environ


def test_a_store_has_one_master_key_and_no_message_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    key, passphrase = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "correct horse"
    monkeypatch.setenv("ORCAS_MASTER_KEY", key)
    settings = resolve().settings
    assert settings.master_key == key
    assert key not in repr(settings)
    monkeypatch.setenv("ORCAS_MASTER_PASSPHRASE", passphrase)
    with pytest.raises(ConfigurationError, match="set only one"):
        resolve()
    monkeypatch.delenv("ORCAS_MASTER_PASSPHRASE")
    # Too short, too long, and bits that no 32 bytes have.
    for wrong in (key[4:], key + "AAAA", key.replace("QE=", "QF="), "x"):
        monkeypatch.setenv("ORCAS_MASTER_KEY", wrong)
        with pytest.raises(ConfigurationError, match="32 bytes in base64") as caught:
            resolve()
        assert wrong == "x" or wrong not in str(caught.value)
