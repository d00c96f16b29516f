from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from pytest_databases.helpers import get_xdist_worker_count, get_xdist_worker_num
from pytest_databases.types import ServiceContainer, XdistIsolationLevel

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_databases._service import DockerService


@dataclass
class OrcasService(ServiceContainer):
    endpoint_url: str
    access_key: str
    secret_key: str
    region: str


@pytest.fixture(scope="session")
def orcas_image() -> str:
    return "orcas-s3:latest"


@pytest.fixture(scope="session")
def orcas_access_key() -> str:
    return os.getenv("ORCAS_ROOT_ACCESS_KEY", "pytest-databases-orcas")


@pytest.fixture(scope="session")
def orcas_secret_key() -> str:
    return os.getenv("ORCAS_ROOT_SECRET_KEY", "pytest-databases-orcas-secret")


@pytest.fixture(scope="session")
def orcas_region() -> str:
    return os.getenv("ORCAS_REGION", "us-east-1")


@pytest.fixture(scope="session")
def xdist_orcas_isolation_level() -> XdistIsolationLevel:
    return "database"


@pytest.fixture(scope="session")
def orcas_default_bucket_name() -> str:
    worker_num = get_xdist_worker_num()
    return "pytest-databases" if worker_num is None else f"pytest-databases-{worker_num}"


@pytest.fixture(scope="session")
def orcas_service(
    docker_service: DockerService,
    orcas_image: str,
    orcas_access_key: str,
    orcas_secret_key: str,
    orcas_region: str,
    orcas_default_bucket_name: str,
    xdist_orcas_isolation_level: XdistIsolationLevel,
) -> Generator[OrcasService, None, None]:
    def check(_service: ServiceContainer) -> bool:
        url = f"http://{_service.host}:{_service.port}/_orcas/health/ready"
        try:
            with urlopen(url, timeout=10) as response:  # noqa: S310
                return response.status == 200
        except (URLError, ConnectionError):
            return False

    worker_num = get_xdist_worker_num()
    name = "orcas"
    transient = False
    buckets = {orcas_default_bucket_name}

    if worker_num is not None:
        if xdist_orcas_isolation_level == "server":
            name = f"{name}_{worker_num}"
            transient = True
        else:
            # The first worker starts the server for all.
            buckets.update(f"pytest-databases-{num}" for num in range(get_xdist_worker_count()))

    with docker_service.run(
        image=orcas_image,
        name=name,
        command="serve --memory",
        container_port=9000,
        timeout=30,
        env={
            "ORCAS_ROOT_ACCESS_KEY": orcas_access_key,
            "ORCAS_ROOT_SECRET_KEY": orcas_secret_key,
            "ORCAS_REGION": orcas_region,
            "ORCAS_BUCKETS": ",".join(sorted(buckets)),
        },
        check=check,
        transient=transient,
    ) as service:
        yield OrcasService(
            host=service.host,
            port=service.port,
            container=service.container,
            endpoint_url=f"http://{service.host}:{service.port}",
            access_key=orcas_access_key,
            secret_key=orcas_secret_key,
            region=orcas_region,
        )
