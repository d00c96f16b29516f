from collections.abc import Sequence
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy


class OrcasContainer(DockerContainer):
    """
    Orcas container: an S3 server, which keeps its store in memory.

    The method :code:`get_client_config` returns the arguments with which boto3 creates a client,
    and :code:`get_url` the endpoint for any other client.

    Example:

        .. doctest::

            >>> import boto3
            >>> from testcontainers.community.orcas import OrcasContainer

            >>> with OrcasContainer(buckets=["test"]) as orcas:
            ...     client = boto3.client("s3", **orcas.get_client_config())
            ...     _ = client.put_object(Bucket="test", Key="testfile.txt", Body=b"Hello World")
            ...     client.get_object(Bucket="test", Key="testfile.txt")["Body"].read()
            b'Hello World'
    """

    def __init__(
        self,
        image: str = "orcas-s3:latest",
        port: int = 9000,
        access_key: str = "testcontainers-orcas",
        secret_key: str = "testcontainers-orcas",
        region: str = "us-east-1",
        buckets: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            image: Docker image to use for the Orcas container.
            port: Port to expose on the container.
            access_key: Access key for client connections.
            secret_key: Secret key for client connections, of at least 8 characters.
            region: Region of the store.
            buckets: Buckets to create.
        """
        super().__init__(image, _wait_strategy=HttpWaitStrategy(port, "/_orcas/health/ready"), **kwargs)
        self.port = port
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region

        self.with_exposed_ports(self.port)
        self.with_envs(
            ORCAS_PORT=str(self.port),
            ORCAS_ROOT_ACCESS_KEY=self.access_key,
            ORCAS_ROOT_SECRET_KEY=self.secret_key,
            ORCAS_REGION=self.region,
        )
        if buckets:
            self.with_env("ORCAS_BUCKETS", ",".join(buckets))
        # The shared memory of a container is too small for a store, which then is in /tmp.
        self.with_tmpfs_mount("/tmp")
        self.with_command("serve --memory")

    def get_url(self) -> str:
        """Returns the endpoint of the container."""
        return f"http://{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def get_client_config(self) -> dict[str, str]:
        """Returns the endpoint, the credentials and the region, as arguments of boto3.

        Returns:
            dict: {`endpoint_url`: str, `aws_access_key_id`: str, `aws_secret_access_key`: str, `region_name`: str}
        """
        return {
            "endpoint_url": self.get_url(),
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "region_name": self.region,
        }
