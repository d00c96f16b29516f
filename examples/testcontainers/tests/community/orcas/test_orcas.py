import boto3
import pytest
from botocore.exceptions import ClientError

from testcontainers.community.orcas import OrcasContainer


def test_docker_run_orcas() -> None:
    config = OrcasContainer(
        access_key="test-access", secret_key="test-secret", region="eu-west-1", buckets=["test-a", "test-b"]
    )
    with config as orcas:
        client_config = orcas.get_client_config()
        assert client_config["endpoint_url"] == orcas.get_url()
        assert client_config["aws_access_key_id"] == "test-access"
        client = boto3.client("s3", **client_config)
        assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["test-a", "test-b"]
        assert client.get_bucket_location(Bucket="test-a")["LocationConstraint"] == "eu-west-1"

        test_content = b"Hello World"
        client.put_object(Bucket="test-a", Key="testfile.txt", Body=test_content)
        assert client.get_object(Bucket="test-a", Key="testfile.txt")["Body"].read() == test_content

        stranger = boto3.client("s3", **{**client_config, "aws_secret_access_key": "another-secret"})
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            stranger.list_buckets()


def test_docker_run_orcas_with_another_port() -> None:
    with OrcasContainer(port=9100) as orcas:
        client = boto3.client("s3", **orcas.get_client_config())
        assert client.list_buckets()["Buckets"] == []
