"""Events to SQS, SNS, Lambda and EventBridge: one signed request for each, as their clients send it.

What answers must say that it has taken the event: a status alone would also come from another server. No reason that is
shown has the credentials.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final
from urllib.parse import urlencode

from orcas.http.signing import Keys, encode_query, sign
from orcas.targets.kinds import AwsTarget, Service
from orcas.targets.posting import Answer, Headers, HttpSender
from orcas.targets.sending import Failure, Message

# Bytes of a message: what all these services take.
_MESSAGE_MAX: Final = 262_144
_SERVICES: Final[dict[Service, str]] = {"sqs": "sqs", "sns": "sns", "lambda": "lambda", "eventbridge": "events"}
_NAMES: Final[dict[Service, str]] = {"sqs": "SQS", "sns": "SNS", "lambda": "Lambda", "eventbridge": "EventBridge"}
# In what JSON or XML an error has its code and its message.
_CODE: Final = re.compile(r'"(?:__type|ErrorCode|Code)"\s*:\s*"(?:[^"]*#)?([^"#]+)"|<Code>([^<]+)</Code>')
_TEXT: Final = re.compile(r'"(?:[Mm]essage|ErrorMessage)"\s*:\s*"((?:[^"\\]|\\.)+)"|<Message>([^<]+)</Message>')
_REASON_LEN_MAX: Final = 300
_TOO_LARGE: Final = 413


class AwsSender(HttpSender[AwsTarget]):
    """A connection to one service, kept between deliveries. For one thread."""

    def __init__(self, target: AwsTarget) -> None:
        super().__init__(target, target.endpoint)

    def send(self, message: Message) -> Failure | None:
        """Deliver one message, unless it is larger than the service takes."""
        if len(message.body) > _MESSAGE_MAX:
            size = f"the message has {len(message.body)} bytes"
            return Failure(f"{size}, and {_NAMES[self._target.kind]} takes {_MESSAGE_MAX} at most", final=True)
        return super().send(message)

    def call(self, message: Message) -> tuple[str, Headers, bytes]:
        """The signed request by which clients of the service do it."""
        path, query, headers, body = self._operation(message)
        target, payload = self._target, hashlib.sha256(body).hexdigest()
        keys = Keys(target.access_key, target.secret_key)
        signed = [("host", target.endpoint.netloc), *headers]
        added = sign(keys, target.region, _SERVICES[target.kind], ("POST", path, query), signed, payload)
        return f"{path}?{query}" if query else path, [*headers, *added], body

    def _operation(self, message: Message) -> tuple[str, str, Headers, bytes]:
        target = self._target
        match target.kind:
            case "sqs":
                url = f"{target.endpoint.scheme}://{target.endpoint.netloc}/{target.account}/{target.resource}"
                sent: dict[str, Any] = {"QueueUrl": url, "MessageBody": message.body.decode()}
                return "/", "", _json("1.0", "AmazonSQS.SendMessage"), json.dumps(sent).encode()
            case "eventbridge":
                entry = {"EventBusName": target.arn, "Source": target.source, **json.loads(message.body)}
                return "/", "", _json("1.1", "AWSEvents.PutEvents"), json.dumps({"Entries": [entry]}).encode()
            case "sns":
                sent = {
                    "Action": "Publish", "Version": "2010-03-31", "TopicArn": target.arn,
                    "Subject": "Amazon S3 Notification", "Message": message.body.decode(),
                }  # fmt: skip
                form = "application/x-www-form-urlencoded; charset=utf-8"
                return "/", "", [("content-type", form)], urlencode(sent).encode()
            case "lambda":
                path = f"/2015-03-31/functions/{target.resource}/invocations"
                query = "" if target.qualifier is None else encode_query({"Qualifier": target.qualifier})
                headers = [("content-type", message.content_type), ("x-amz-invocation-type", "Event")]
                return path, query, headers, message.body

    def failure(self, answer: Answer) -> Failure | None:
        """Whether the service has it for good. Of an error: its status, its code and its message."""
        if 200 <= answer.status < 300:
            if self._has_taken(answer.body):
                return None
            reason = f"{_NAMES[self._target.kind]} did not say that it took the event"
        else:
            reason = f"HTTP status {answer.status}"
        text = answer.body.decode("utf-8", "replace")
        for pattern in (_CODE, _TEXT):
            if found := pattern.search(text):
                reason += f": {' '.join((found[1] or found[2]).split())}"
        # Errors about signatures repeat what was sent.
        reason = reason.replace(self._target.access_key, "ACCESS_KEY")[:_REASON_LEN_MAX]
        return Failure(reason, answer.retry_after_sec, final=answer.status == _TOO_LARGE)

    def _has_taken(self, body: bytes) -> bool:
        """An answer with status 200 may say that an event was not taken, or may be that of something else."""
        match self._target.kind:
            case "sns":
                return b"<MessageId>" in body
            case "lambda":
                return True
        try:
            said = json.loads(body)
            return bool(said["MessageId"] if self._target.kind == "sqs" else said["FailedEntryCount"] == 0)
        except (ValueError, KeyError, TypeError):
            return False


def _json(version: str, operation: str) -> Headers:
    return [("content-type", f"application/x-amz-json-{version}"), ("x-amz-target", operation)]
