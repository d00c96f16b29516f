import pytest

CLIENT = """
import boto3
import pytest
from pytest_databases.docker.orcas import OrcasService
from pytest_databases.helpers import get_xdist_worker_num

pytest_plugins = ["pytest_databases.docker.orcas"]


@pytest.fixture
def s3(orcas_service: OrcasService):
    return boto3.client(
        "s3",
        endpoint_url=orcas_service.endpoint_url,
        aws_access_key_id=orcas_service.access_key,
        aws_secret_access_key=orcas_service.secret_key,
        region_name=orcas_service.region,
    )


def buckets_of(s3):
    return [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]

"""


def test_default_no_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CLIENT
        + """
def test_service(orcas_service: OrcasService) -> None:
    assert orcas_service.host == "127.0.0.1"
    assert orcas_service.port > 0


def test_default_bucket(s3, orcas_default_bucket_name: str) -> None:
    assert buckets_of(s3) == [orcas_default_bucket_name] == ["pytest-databases"]
    s3.put_object(Bucket=orcas_default_bucket_name, Key="key", Body=b"content")
    assert s3.get_object(Bucket=orcas_default_bucket_name, Key="key")["Body"].read() == b"content"
"""
    )
    result = pytester.runpytest_subprocess("-p", "pytest_databases")
    result.assert_outcomes(passed=2)


def test_configuration(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        CLIENT
        + """
@pytest.fixture(scope="session")
def orcas_default_bucket_name():
    return "another-bucket"


def test_settings(s3, orcas_service: OrcasService) -> None:
    assert buckets_of(s3) == ["another-bucket"]
    assert s3.get_bucket_location(Bucket="another-bucket")["LocationConstraint"] == "eu-west-1"
    assert orcas_service.access_key == "another-key"
"""
    )
    monkeypatch.setenv("ORCAS_ROOT_ACCESS_KEY", "another-key")
    monkeypatch.setenv("ORCAS_REGION", "eu-west-1")
    result = pytester.runpytest_subprocess("-p", "pytest_databases")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("level", ["database", "server"])
def test_xdist_isolation(pytester: pytest.Pytester, level: str) -> None:
    pytester.makepyfile(
        CLIENT
        + f"""
@pytest.fixture(scope="session")
def xdist_orcas_isolation_level():
    return "{level}"


@pytest.mark.parametrize("number", [1, 2])
def test_bucket(s3, orcas_default_bucket_name: str, number: int) -> None:
    assert orcas_default_bucket_name == f"pytest-databases-{{get_xdist_worker_num()}}"
    assert len(buckets_of(s3)) == {2 if level == "database" else 1}
    s3.put_object(Bucket=orcas_default_bucket_name, Key="key", Body=b"content", IfNoneMatch="*")
    s3.delete_object(Bucket=orcas_default_bucket_name, Key="key")
"""
    )
    result = pytester.runpytest_subprocess("-p", "pytest_databases", "-n", "2")
    result.assert_outcomes(passed=2)
