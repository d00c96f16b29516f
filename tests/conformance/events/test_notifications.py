"""Notification configurations of buckets through boto3: what is accepted, returned and refused."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

CREATED = ["s3:ObjectCreated:*"]


def put(s3: Any, bucket: str, *queues: dict[str, Any]) -> None:
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": list(queues)}
    )


def queue(arn: str = "arn:aws:sqs:us-east-1::none", **more: Any) -> dict[str, Any]:
    return {"QueueArn": arn, "Events": CREATED} | more


def refusal(s3: Any, bucket: str, *queues: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(ClientError) as refused:
        put(s3, bucket, *queues)
    error: dict[str, Any] = refused.value.response["Error"]
    return error


def rules(**filters: str) -> dict[str, Any]:
    listed = [{"Name": name, "Value": value} for name, value in filters.items()]
    return {"Filter": {"Key": {"FilterRules": listed}}}


def test_a_target_need_not_exist_if_the_client_says_so(s3: Any, bucket: str) -> None:
    wanted = {"QueueConfigurations": [queue(Id="a")]}
    given = {"Bucket": bucket, "NotificationConfiguration": wanted}
    with pytest.raises(ClientError, match="Unable to validate"):
        s3.put_bucket_notification_configuration(**given, SkipDestinationValidation=False)
    s3.put_bucket_notification_configuration(**given, SkipDestinationValidation=True)
    assert s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"] == [queue(Id="a")]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    # All else is checked.
    with pytest.raises(ClientError, match="could not be parsed"):
        s3.put_bucket_notification_configuration(
            Bucket=bucket,
            NotificationConfiguration={"QueueConfigurations": [queue("none")]},
            SkipDestinationValidation=True,
        )


def test_only_notifications_have_destinations(wire: Wire, bucket: str) -> None:
    body = b"<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>"
    header = "x-amz-skip-destination-validation"
    answer = wire("PUT", f"/{bucket}", "accelerate", body=body, headers={header: "true"})
    assert (answer.status, answer.code) == (501, "NotImplemented")
    answer = wire("PUT", f"/{bucket}", "notification", body=b"<NotificationConfiguration/>", headers={header: "maybe"})
    assert (answer.status, answer.code, answer.error["ArgumentName"]) == (400, "InvalidArgument", header)


def test_a_target_that_the_server_does_not_have_is_named(s3: Any, bucket: str) -> None:
    error = refusal(s3, bucket, queue())
    assert (
        error.items()
        >= {
            "Code": "InvalidArgument",
            "Message": "Unable to validate the following destination configurations",
            "ArgumentName": "arn:aws:sqs:us-east-1::none",
            "ArgumentValue": "The destination queue does not exist",
        }.items()
    )


@pytest.mark.parametrize(
    ("queues", "code", "message"),
    [
        ([queue(Events=["s3:Foreign"])], "InvalidArgument", "The event 's3:Foreign' is not supported"),
        ([queue("arn:aws:sqs:mars-1::none")], "InvalidArgument", "region is not valid"),
        ([queue("none")], "InvalidArgument", "could not be parsed"),
        ([queue(**rules(infix="a"))], "InvalidArgument", "must be either prefix or suffix"),
        ([queue(Id="a", **rules(prefix="a")), queue(Id="a", **rules(prefix="b"))], "InvalidArgument", "Same ID"),
        ([queue(**rules(prefix="a")), queue(**rules(prefix="ab"))], "InvalidArgument", "ambiguously defined"),
        ([queue(), queue()], "InvalidArgument", "Configurations overlap"),
        (
            [queue(Id=str(n), **rules(prefix=f"{n}/")) for n in range(101)],
            "InvalidRequest",
            "number of configurations is 100",
        ),
    ],
    ids=["event", "region", "arn", "filter", "id", "overlap", "same", "many"],
)
def test_documents_are_refused_as_on_s3(
    s3: Any, bucket: str, queues: list[dict[str, Any]], code: str, message: str
) -> None:
    error = refusal(s3, bucket, *queues)
    assert error["Code"] == code
    assert message in error["Message"]


def test_an_empty_document_is_accepted_and_returned(s3: Any, bucket: str) -> None:
    put(s3, bucket)
    answer = s3.get_bucket_notification_configuration(Bucket=bucket)
    assert answer.keys() == {"ResponseMetadata"}
