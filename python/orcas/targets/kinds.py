"""The kinds of targets, as checked values. No secret shows when one is printed."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias
from urllib.parse import SplitResult

Format = Literal["s3", "cloudevents", "minio", "eventbridge"]
Service = Literal["sqs", "sns", "lambda", "eventbridge"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

# What stands for the event bus: notifications name it without an ARN.
EVENT_BUS: Final = "arn:aws:events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The fields that every target has.

    `private`: its addresses may be those of a private network or of this machine. `attempts` in all, before an event
    becomes a dead letter.
    """

    name: str
    format: Format = "s3"
    private: bool = False
    attempts: int = 10
    timeout_sec: int = 15

    @property
    def destination(self) -> str:
        """The name of the target in notifications."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How a server proves who it is, and how this one does. Without `ca_file`, as the system has it."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What connections are made with. Reads the files, which may have been renewed.

        Raises:
            OSError: a file cannot be read, or has something else.
        """
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget(Common):
    """A receiver over HTTP."""

    kind: ClassVar[str] = "webhook"
    url: SplitResult
    secret: bytes = field(repr=False)
    # What the header Authorization has.
    authorization: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The place where events go, for people."""
        return self.url.geturl()


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTarget(Common):
    """A topic of Kafka. `brokers`: those that are asked first, which name the others."""

    kind: ClassVar[str] = "kafka"
    brokers: tuple[str, ...]
    topic: str
    tls: Tls | None = None
    sasl: Mechanism | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The place where events go, for people."""
        return f"kafka://{','.join(self.brokers)}/{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsTarget(Common):
    """A subject that a stream of NATS JetStream keeps. `stream`: the only one that may. `tls`: nothing goes in the clear."""

    kind: ClassVar[str] = "nats"
    servers: tuple[str, ...]
    subject: str
    stream: str | None = None
    tls: Tls | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The place where events go, for people."""
        return f"{','.join(self.servers)}/{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsTarget(Common):
    """A queue of SQS, a topic of SNS, a function of Lambda or a bus of EventBridge, there or at what speaks like them.

    `resource`: how the service calls it. `qualifier`: the version or the alias of a function. `source`: who sends events
    to a bus.
    """

    kind: Service
    arn: str
    region: str
    account: str
    resource: str
    qualifier: str | None = None
    endpoint: SplitResult
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    source: str = "aws.s3"

    @property
    def destination(self) -> str:
        """The name of the target in notifications: its whole ARN, or that they go to the event bus."""
        return EVENT_BUS if self.kind == "eventbridge" else self.arn

    @property
    def address(self) -> str:
        """The place where events go, for people."""
        return f"{self.arn} at {self.endpoint.netloc}"


Target: TypeAlias = WebhookTarget | KafkaTarget | NatsTarget | AwsTarget
