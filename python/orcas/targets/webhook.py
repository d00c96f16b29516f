"""Events as Standard Webhooks have them: a POST with a signature over its id, its time and its body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Final

from orcas.targets.kinds import WebhookTarget
from orcas.targets.posting import Answer, Headers, HttpSender
from orcas.targets.sending import Failure, Message

_GONE: Final = 410


class WebhookSender(HttpSender[WebhookTarget]):
    """A connection to one receiver, kept between deliveries. For one thread."""

    def __init__(self, target: WebhookTarget) -> None:
        super().__init__(target, target.url)

    def call(self, message: Message) -> tuple[str, Headers, bytes]:
        """A POST to the URL."""
        url = self._target.url
        at = str(int(time.time()))
        digest = hmac.digest(self._target.secret, f"{message.id}.{at}.".encode() + message.body, hashlib.sha256)
        headers = [
            ("content-type", message.content_type), ("webhook-id", message.id), ("webhook-timestamp", at),
            ("webhook-signature", f"v1,{base64.b64encode(digest).decode()}"),
        ]  # fmt: skip
        if self._target.authorization is not None:
            headers.append(("authorization", self._target.authorization))
        return f"{url.path or '/'}{'?' if url.query else ''}{url.query}", headers, message.body

    def failure(self, answer: Answer) -> Failure | None:
        """Any status from 200 to 299 says that it was taken."""
        if 200 <= answer.status < 300:
            return None
        return Failure(f"HTTP status {answer.status}", answer.retry_after_sec, final=answer.status == _GONE)
