"""The file of targets, and which addresses are public."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.receivers import SECRET

from orcas.errors import ConfigurationError
from orcas.targets.addresses import is_public
from orcas.targets.file import read_targets
from orcas.targets.kinds import WebhookTarget

GOOD = f'[images]\nurl = "https://example.org:8443/hook?x=1"\nsecret = "whsec_{SECRET}"\n'


def test_a_target_has_defaults_and_a_secret_that_does_not_show(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(GOOD + '[two]\nurl = "http://a"\nsecret_file = "secret"\nformat = "cloudevents"\nattempts = 3\n')
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    path.write_text(path.read_text().replace('"secret"', f'"{tmp_path}/secret"'))
    images, two = read_targets(path).values()
    assert isinstance(images, WebhookTarget)
    assert isinstance(two, WebhookTarget)
    assert (images.name, images.url.hostname, images.url.port) == ("images", "example.org", 8443)
    assert (images.format, images.private, images.attempts, images.timeout_sec) == ("s3", False, 10, 15)
    assert images.secret == two.secret == bytes(range(32))
    assert (two.format, two.attempts) == ("cloudevents", 3)
    assert SECRET not in repr(images)
    assert str(bytes(range(32))) not in repr(images)
    assert read_targets(None) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[images]", "images = 1\n[a]"), "must be a table"),
        (("[images]", '["a b"]'), "needs a name"),
        (("https://", "ftp://"), "begins with https://"),
        (("https://", "https://user@"), "neither is sent"),
        (("/hook", "/ho ok"), "blanks"),
        ((":8443", ":0"), "begins with https://"),
        ((":8443", ":x"), "a url that is none"),
        (("whsec_", "!"), "24 to 64 bytes in base64"),
        (("secret =", "secrets ="), "needs either secret or secret_file"),
        (("secret =", 'secret_file = "/nonexistent"\n#'), "cannot be read"),
        (("secret =", "attempts = 0\nsecret ="), "attempts from 1 to 20"),
        (("secret =", 'timeout_sec = "1"\nsecret ='), "timeout_sec from 1 to 60"),
        (("secret =", "private = 1\nsecret ="), "true or false for private"),
        (("secret =", 'format = "xml"\nsecret ='), "s3 or cloudevents"),
        (("secret =", "colour = 1\nsecret ="), "sets colour"),
        (("[images]", "[images"), "cannot be read"),
    ],
)
def test_a_mistake_is_named_and_no_secret_is(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "targets.toml"
    text = GOOD.replace(*change)
    assert text != GOOD
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=said) as wrong:
        read_targets(path)
    assert SECRET not in str(wrong.value)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True), ("127.0.0.1", False), ("10.1.2.3", False),
        ("169.254.169.254", False), ("0.0.0.0", False), ("224.0.0.1", False), ("100.64.0.1", False), ("::1", False),
        ("fe80::1%eth0", False), ("fd00::1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False), ("::ffff:93.184.216.34", True),
    ],
)  # fmt: skip
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(address) is public
