"""Messages to a Kafka topic, sent with aiokafka (the extra `kafka`).

A record has the key of its event, so all events of a key are in one partition. A record counts as delivered when all
in-sync replicas have confirmed it. The producer is idempotent: a record that it repeats by itself is stored once.
"""

from __future__ import annotations

import contextlib
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError, RecordListTooLargeError

from orcas.targets.broker import BrokerSender, RefusedError
from orcas.targets.kinds import KafkaTarget
from orcas.targets.sending import Message

_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
_SECURITY: Final = {
    (False, False): "PLAINTEXT", (True, False): "SSL", (False, True): "SASL_PLAINTEXT", (True, True): "SASL_SSL",
}  # fmt: skip


class KafkaSender(BrokerSender[KafkaTarget, AIOKafkaProducer]):
    """A producer."""

    async def connect(self) -> AIOKafkaProducer:
        """A producer that has an id."""
        target = self._target
        producer = AIOKafkaProducer(
            bootstrap_servers=list(target.brokers),
            client_id="orcas",
            acks="all",
            enable_idempotence=True,
            # So that the producer can repeat what a broker did not answer, within an attempt.
            request_timeout_ms=target.timeout_sec * 500,
            security_protocol=_SECURITY[target.tls is not None, target.sasl is not None],
            ssl_context=None if target.tls is None else target.tls.context(),
            sasl_mechanism=target.sasl or "PLAIN",
            sasl_plain_username=target.user,
            sasl_plain_password=target.password,
        )
        try:
            await producer.start()
        except BaseException as error:
            with contextlib.suppress(Exception):
                await producer.stop()
            if isinstance(error, KafkaConnectionError):
                raise RefusedError("no broker can be reached") from None
            raise
        return producer

    async def publish(self, connection: AIOKafkaProducer, message: Message) -> None:
        """Returns when the brokers have it."""
        headers = [("id", message.id.encode()), ("content-type", message.content_type.encode())]
        key = f"{message.bucket}/{message.key}".encode()
        await connection.send_and_wait(self._target.topic, message.body, key=key, headers=headers)

    async def disconnect(self, connection: AIOKafkaProducer) -> None:
        """Drop what it has, too: `stop` alone would wait until that is sent."""
        await self._loop.cancel_others()
        await connection.stop()

    def is_usable(self, connection: AIOKafkaProducer) -> bool:
        """Whether it is usable: it connects again by itself, and what it cannot recover from fails a delivery."""
        return True

    def is_final(self, error: Exception) -> bool:
        """Whether the record is too large for the topic."""
        return isinstance(error, _TOO_LARGE)
