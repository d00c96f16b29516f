"""The senders of a target, by its kind. Loads a client library only for a target that needs it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from orcas.errors import ConfigurationError
from orcas.targets.aws import AwsSender
from orcas.targets.kinds import AwsTarget, KafkaTarget, NatsTarget, Target, WebhookTarget
from orcas.targets.sending import Sender
from orcas.targets.webhook import WebhookSender

_CLIENTS: Final = {"kafka": "aiokafka", "nats": "nats"}


def check_client(target: Target) -> None:
    """Whether what the target needs is installed.

    Raises:
        ConfigurationError: it is not.
    """
    try:
        if target.kind in _CLIENTS:
            importlib.import_module(_CLIENTS[target.kind])
    except ImportError:
        raise ConfigurationError(
            f"The target {target.name} is of the type {target.kind}, which needs a package that is not installed: "
            f"run pip install 'orcas-s3[{target.kind}]'."
        ) from None


def open_senders(target: Target, count: int) -> Sequence[Sender]:
    """So many senders. Those of a broker share a connection."""
    if isinstance(target, WebhookTarget):
        return [WebhookSender(target) for _ in range(count)]
    if isinstance(target, AwsTarget):
        return [AwsSender(target) for _ in range(count)]
    return [_broker(target)] * count


def _broker(target: KafkaTarget | NatsTarget) -> Sender:
    if isinstance(target, KafkaTarget):
        from orcas.targets.kafka import KafkaSender

        return KafkaSender(target)
    from orcas.targets.nats import NatsSender

    return NatsSender(target)
