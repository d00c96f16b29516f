"""The file of targets, and which addresses are public."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fixtures.events.certificates import certify
from tests.fixtures.events.receivers import SECRET

from orcas.errors import ConfigurationError
from orcas.targets.addresses import is_public
from orcas.targets.file import read_targets
from orcas.targets.kinds import AwsTarget, KafkaTarget, NatsTarget, Tls, WebhookTarget

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
        ((":8443", ":x"), "needs url: a URL that begins with"),
        (("whsec_", "!"), "24 to 64 bytes in base64"),
        (("secret =", "secrets ="), "needs either secret or secret_file"),
        (("secret =", 'secret_file = "/nonexistent"\n#'), "cannot be read"),
        (("secret =", "attempts = 0\nsecret ="), "attempts from 1 to 20"),
        (("secret =", 'timeout_sec = "1"\nsecret ='), "timeout_sec from 1 to 60"),
        (("secret =", "private = 1\nsecret ="), "true or false for private"),
        (("secret =", 'format = "xml"\nsecret ='), "s3, cloudevents or minio"),
        (("secret =", "colour = 1\nsecret ="), "sets colour"),
        (("[images]", "[images"), "cannot be read"),
        (("secret =", 'authorization = "Bearer x\\r\\ny: z"\nsecret ='), "visible ASCII characters and spaces"),
        (('https://example.org:8443/hook?x=1"', 'http://a"\nauthorization = "Bearer x"'), "in the clear"),
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


KAFKA = """[queue]
type = "kafka"
brokers = ["b1.example.org:9092", "[2001:db8::1]:9092"]
topic = "photo-events"
tls = true
sasl = "SCRAM-SHA-512"
user = "orcas"
password = "only-brokers-know"
"""
NATS = """[stream]
type = "nats"
servers = ["tls://n1.example.org:4222", "tls://n2.example.org"]
subject = "orcas.{bucket}.events"
stream = "EVENTS"
token = "only-brokers-know"
"""
CREDENTIALS = """-----BEGIN NATS USER JWT-----
only-brokers-know
------END NATS USER JWT------
-----BEGIN USER NKEY SEED-----
only-brokers-know
------END USER NKEY SEED------
"""


def test_targets_of_brokers(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    credentials = tmp_path / "orcas.creds"
    credentials.write_text(CREDENTIALS)
    certificate, key = certify(tmp_path)
    files = f'ca_file = "{certificate}"\ncert_file = "{certificate}"\nkey_file = "{key}"\n'
    other = NATS.replace("[stream]", "[other]").replace(
        'token = "only-brokers-know"', f'credentials_file = "{credentials}"'
    )
    path.write_text(GOOD.replace("[images]", '[images]\ntype = "webhook"') + KAFKA + files + NATS + other)
    images, queue, stream, second = read_targets(path).values()
    assert [one.kind for one in (images, queue, stream, second)] == ["webhook", "kafka", "nats", "nats"]
    assert isinstance(queue, KafkaTarget)
    assert (queue.brokers, queue.topic) == (("b1.example.org:9092", "[2001:db8::1]:9092"), "photo-events")
    assert (queue.sasl, queue.user, queue.password) == ("SCRAM-SHA-512", "orcas", "only-brokers-know")
    assert queue.tls == Tls(ca_file=certificate, cert_file=certificate, key_file=key)
    assert queue.address == "kafka://b1.example.org:9092,[2001:db8::1]:9092/photo-events"
    assert isinstance(stream, NatsTarget)
    assert (stream.subject, stream.stream, stream.token) == ("orcas.{bucket}.events", "EVENTS", "only-brokers-know")
    assert stream.tls == Tls()
    assert isinstance(second, NatsTarget)
    assert second.credentials == CREDENTIALS.strip()
    assert "only-brokers-know" not in repr([queue, stream, second])


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        (GOOD, ("[images]", '[images]\ntype = "amqp"'), "lambda or eventbridge"),
        (GOOD, ("[images]", '[images]\ntopic = "t"'), "sets topic, which no target of the type webhook has"),
        (KAFKA, ("[queue]", '[queue]\nurl = "http://a"'), "sets url, which no target of the type kafka has"),
        (KAFKA, ('brokers = ["b1.example.org:9092", ', "brokers = [1, "), "each an address as HOST:PORT"),
        (KAFKA, ("b1.example.org:9092", "b1.example.org"), "each an address as HOST:PORT"),
        (KAFKA, ("b1.example.org:9092", "b1.example.org:x"), "each an address as HOST:PORT"),
        (KAFKA, ("b1.example.org:9092", "only-brokers-know@b:9"), "each an address as HOST:PORT"),
        (KAFKA, ('["b1.example.org:9092", "[2001:db8::1]:9092"]', "[]"), "a list of 1 to 32"),
        (KAFKA, ("photo-events", "photo events"), "needs a topic"),
        (KAFKA, ("photo-events", ".."), "needs a topic"),
        (KAFKA, ("SCRAM-SHA-512", "GSSAPI"), "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        (KAFKA, ("user =", "users ="), "all of sasl, user and password"),
        (KAFKA, ("password =", 'password_file = "/nonexistent"\n#'), "password_file that cannot be read"),
        (KAFKA, ("password =", 'password_file = "/nonexistent"\npassword ='), "either password or password_file"),
        (KAFKA, ('tls = true\nsasl = "SCRAM-SHA-512"', 'sasl = "PLAIN"'), "its password in the clear"),
        (KAFKA, ("tls = true", 'ca_file = "x"'), "files for TLS without tls = true"),
        (KAFKA, ("tls = true", 'tls = true\nca_file = "/nonexistent"'), "files for TLS that cannot be used"),
        (KAFKA, ("tls = true", 'tls = true\nkey_file = "x"'), "a key_file, and no cert_file"),
        (NATS, ("tls://n1", "nats://n1"), "all of them need the same"),
        (NATS, ("tls://n1", "wss://n1"), "each an address as nats://HOST or tls://HOST"),
        (NATS, ("tls://n1", "tls://only-brokers-know@n1"), "each an address as nats://HOST or tls://HOST"),
        (NATS, ("tls://", "nats://"), "its password or token in the clear"),
        (NATS, ("orcas.{bucket}", "orcas.*"), "needs a subject"),
        (NATS, ("orcas.{bucket}", "orcas..{bucket}"), "needs a subject"),
        (NATS, ("orcas.{bucket}", "$JS.{bucket}"), "needs a subject"),
        (NATS, ("{bucket}", "{key}"), "needs a subject"),
        (NATS, ("EVENTS", "a.b"), "needs a stream"),
        (NATS, ("token =", 'user = "me"\ntoken ='), "both user and password"),
        (NATS, ("token =", 'user = "me"\npassword = "p"\ntoken ='), "more than one of"),
        (NATS, ("token =", "credentials ="), "a JWT and a seed"),
        (NATS, ("token =", "token = 1\n#"), "empty or no text"),
    ],
)
def test_a_mistake_in_a_target_of_a_broker_is_named(
    tmp_path: Path, text: str, change: tuple[str, str], said: str
) -> None:
    path = tmp_path / "targets.toml"
    changed = text.replace(*change)
    assert changed != text
    path.write_text(changed)
    with pytest.raises(ConfigurationError, match=re.escape(said)) as wrong:
        read_targets(path)
    assert "only-brokers-know" not in str(wrong.value)
    assert str(wrong.value).endswith(".")


OWNER = "us-east-1:123456789012"
AWS = f"""
[jobs]
type = "sqs"
arn = "arn:aws:sqs:{OWNER}:jobs"
endpoint = "https://sqs.us-east-1.amazonaws.com"
access_key = "AKIDEVENTS"
secret_key = "only-services-know"
"""
MORE = f"""
[topic]
type = "sns"
arn = "arn:aws:sns:{OWNER}:jobs"
endpoint = "http://sns.example.org:8080/"
access_key = "AKIDEVENTS"
secret_key = "only-services-know"

[function]
type = "lambda"
arn = "arn:aws:lambda:{OWNER}:function:resize:$LATEST"
endpoint = "https://lambda.us-east-1.amazonaws.com"
access_key = "AKIDEVENTS"
secret_key = "only-services-know"
"""
BUS = f"""
[bus]
type = "eventbridge"
arn = "arn:aws:events:{OWNER}:event-bus/default"
endpoint = "https://events.us-east-1.amazonaws.com"
access_key = "AKIDEVENTS"
secret_key_file = "KEY"
source = "orcas.s3"
"""


def test_services_of_aws_are_called_by_their_arns(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    (tmp_path / "key").write_text("only-services-know\n")
    # What is called as an alias, or as EventBridge, is no other name for it.
    others = "".join(GOOD.replace("images", name) for name in ("events", "default", "LATEST"))
    path.write_text(others + AWS + MORE + BUS.replace("KEY", str(tmp_path / "key")))
    targets = [target for target in read_targets(path).values() if isinstance(target, AwsTarget)]
    jobs, topic, function, bus = targets
    assert [target.kind for target in targets] == ["sqs", "sns", "lambda", "eventbridge"]
    assert [target.destination for target in targets] == [jobs.arn, topic.arn, function.arn, "arn:aws:events"]
    assert (jobs.region, jobs.account, jobs.resource) == ("us-east-1", "123456789012", "jobs")
    assert (function.resource, function.qualifier) == ("resize", "$LATEST")
    assert (jobs.format, bus.format, bus.source) == ("s3", "eventbridge", "orcas.s3")
    assert jobs.address == f"arn:aws:sqs:{OWNER}:jobs at sqs.us-east-1.amazonaws.com"
    assert {target.secret_key for target in targets} == {"only-services-know"}
    assert not re.search("only-services-know|AKIDEVENTS", repr(targets))


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        (AWS, ("arn:aws:sqs", "arn:aws:sns"), "needs an arn: arn:aws:sqs:REGION:ACCOUNT:QUEUE"),
        (AWS, (OWNER, "us-east-1:"), "with an account of 12 digits"),
        (AWS, (":jobs", ":jobs.fifo"), "the arn of a FIFO queue or topic"),
        (MORE, (":function:resize", ":resize"), "arn:aws:lambda:REGION:ACCOUNT:function:NAME"),
        (BUS, ("event-bus/default", "default"), "arn:aws:events:REGION:ACCOUNT:event-bus/NAME"),
        (AWS, ("endpoint =", "url ="), "needs endpoint: a URL"),
        (AWS, ("amazonaws.com", "amazonaws.com/jobs"), "an endpoint with a path"),
        (AWS, ("https://", "ftp://"), "needs endpoint: a URL that begins with https:// or http://"),
        (AWS, ("AKIDEVENTS", "AKID/EVENTS"), "needs an access_key and a secret_key"),
        (AWS, ("secret_key =", "secret ="), "needs an access_key and a secret_key"),
        (AWS, ("[jobs]", '[jobs]\nsource = "a"'), "sets source, which no target of the type sqs has"),
        (BUS, ("orcas.s3", "a b"), "needs a source"),
        (BUS, ("[bus]", '[bus]\nformat = "minio"'), "EventBridge takes events in its own alone"),
        (AWS, ("[jobs]", AWS.replace("[jobs]", "[again]") + "[jobs]"), f"are both for arn:aws:sqs:{OWNER}:jobs"),
        (GOOD, ("[images]", AWS.replace("[jobs]", "[queue]") + "[jobs]"), f"the events for arn:aws:sqs:{OWNER}:jobs, too"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_target_at_aws_is_named(tmp_path: Path, text: str, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "targets.toml"
    (tmp_path / "key").write_text("only-services-know")
    changed = text.replace(*change)
    assert changed != text
    path.write_text(changed.replace("KEY", str(tmp_path / "key")))
    with pytest.raises(ConfigurationError, match=re.escape(said)) as wrong:
        read_targets(path)
    assert "only-services-know" not in str(wrong.value)
    assert str(wrong.value).endswith(".")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True), ("127.0.0.1", False), ("10.1.2.3", False),
        ("169.254.169.254", False), ("0.0.0.0", False), ("224.0.0.1", False), ("100.64.0.1", False), ("::1", False),
        ("fe80::1%eth0", False), ("fd00::1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False), ("::ffff:93.184.216.34", True),
        ("64:ff9b:1::7f00:1", False), ("64:ff9b:1::5db8:d822", False), ("64:ff9b::5db8:d822", True),
        ("fec0::1", False), ("::127.0.0.1", False), ("::93.184.216.34", False), ("::ffff:0:127.0.0.1", False),
        ("::", False), ("2002:5db8:d822::1", True), ("2002:a00:1::5db8:d822", False), ("2001:db8::1", False),
        ("2600::5efe:10.0.0.1", False), ("2600::200:5efe:127.0.0.1", False), ("2600::5efe:93.184.216.34", True),
        ("ff0e::1", False), ("100::1", False), ("3fff::1", False), ("5f00::1", False), ("4000::1", False),
        ("192.88.99.1", False), ("192.0.0.8", False), ("198.19.255.255", False), ("203.0.113.1", False),
        ("fd00:ec2::254", False), ("::ffff:169.254.169.254", False), ("64:ff9b::a9fe:a9fe", False), ("ff02::1", False),
        ("255.255.255.255", False), ("239.255.255.255", False), ("172.32.0.1", True), ("100.128.0.1", True),
    ],
)  # fmt: skip
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(address) is public
