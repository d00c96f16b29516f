#!/usr/bin/env bash
# Suites that nobody here wrote, with Orcas in place of their moto or MinIO: tests/clients/suites.sh [NAME…]
#
# .ci/run suites installs Orcas into target/suites/venv and calls this. Each suite is fetched at the commit that was
# tried, and gets what docs/testing.md describes. What is left out fails for the reason beside it.
set -euo pipefail
cd "$(dirname "$0")/../.."

MOTO="$PWD/examples/moto"
mkdir -p target/suites
cd target/suites
BIN="$PWD/venv/bin"
SUITES=(s3fs aiobotocore smart_open django-storages s3path luigi servicelayer s3-credentials obstore cloudpathlib)

# fetched NAME OWNER/REPOSITORY COMMIT: the sources in the directory NAME, as they were committed.
fetched() {
    git init --quiet "$1"
    git -C "$1" fetch --quiet --depth 1 "https://github.com/$2" "$3"
    git -C "$1" checkout --quiet --force FETCH_HEAD
    git -C "$1" clean --quiet -fdx
}

# One environment for all. The versions of pytest are those that cloudpathlib can take.
fetched s3fs fsspec/s3fs b7ec8db5170d8a9afeeadc9efb7b4292a335bf6b
fetched aiobotocore aio-libs/aiobotocore 255e37f7a777169a6933179b5028993261e6c960
fetched smart_open piskvorky/smart_open 9d9022aa6d7d93e8dc7d721dd0e567349415af72
fetched django-storages jschneier/django-storages ca89a94a7462a2423df460e7bfd5f847457042ca
fetched s3path liormizr/s3path cbc37d54d215035351ccc09c56b003e18b408149
fetched luigi spotify/luigi 715f65c4a56a908ef0a1df4df6fc33b8420e2e6c
fetched servicelayer alephdata/servicelayer d2ef38c0c3c9433ad7be9967c5abb3d3b7ebea0a
fetched s3-credentials simonw/s3-credentials 4611f333407d2428b2e21771469e34fd52a5165d
fetched obstore developmentseed/obstore d7b8b8635f7cb374e3283278a8bbdf90589d0800
fetched cloudpathlib drivendataorg/cloudpathlib 9d5fa708814adea1cb956ff4843eb466fbb21738
"$BIN/python" -m pip install --quiet uv
"$BIN/uv" pip install --quiet --python "$BIN/python" \
    ./s3fs ./aiobotocore './smart_open[s3,ssh,zst,lz4,http]' ./django-storages ./s3path ./luigi ./servicelayer \
    ./s3-credentials pytest-mock 'boto; python_version<"3.12"' mock obstore==0.11.0 './cloudpathlib[all]' \
    'pytest<9.1' pytest-asyncio 'pytest-rerunfailures<16' pytest-timeout pytest-xdist pytest-cases \
    aiohttp-retry arro3-core azure-identity boto3 dill django docker google-auth minio 'moto[server]' numpy obspec \
    pip-tools psutil pyarrow pydantic pystac pystac-client python-dotenv requests responses rsa shortuuid tenacity trustme

# Python imports this in every process of a suite: it notes what is looked up or connected to beyond this machine.
mkdir -p watch
"$BIN/python" -c 'import runpy; print(runpy.run_path("../../tests/testing/network.py")["WATCH"])' >watch/sitecustomize.py

# suite DIRECTORY [ARGUMENTS…]: pytest there, by the command RUN; fails if it reaches for another machine.
RUN=()
suite() {
    local seen="$PWD/watch/$1" status=0 places="$PWD/watch:$MOTO:${PYTHONPATH:-}"
    rm -f "$seen"
    cd "$1"
    shift
    WATCH="$seen" PYTHONPATH="$places" "${RUN[@]}" "$BIN/python" -m pytest --quiet -p no:cacheprovider "$@" || status=$?
    if [ -e "$seen" ]; then
        echo "It reached for other machines:"
        sort "$seen" | uniq -c
        return 1
    fi
    return "$status"
}

s3fs() {
    local known=(
        # A copy has the ACL of its source.
        test_xattr
        # Names of buckets with an underscore, which S3 refuses.
        test_rmdir test_mkdir test_mkdir_existing_bucket test_mkdir_bucket_and_key_1 test_mkdir_bucket_and_key_2
        test_mkdir_region_name test_mkdir_client_region_name test_makedirs test_makedirs_existing_bucket
        test_makedirs_pure_bucket_exist_ok test_makedirs_pure_bucket_error_on_exist test_bucket_versioning
        # Entries of a list without ChecksumType, and keys in the answer to a quiet DeleteObjects.
        test_info test_rm
    )
    # Not --deselect, which takes all names that begin so.
    printf 'del %s\n' "${known[@]}" >>s3fs/s3fs/tests/test_s3fs.py
    # Each test creates its buckets with an ACL. S3 sets that of a bucket that exists; Orcas refuses.
    printf 'from s3fs.tests.test_s3fs import reset_s3_fixture\n' >>s3fs/s3fs/tests/test_mapping.py
    # One test reaches S3 without naming the endpoint.
    RUN=("$BIN/orcas" run --)
    suite s3fs -p orcas_for_moto s3fs/tests
}

aiobotocore() {
    # Their fixtures are replaced by those of the same names that come last.
    cat >>aiobotocore/tests/conftest.py <<'PYTHON'


@pytest.fixture(scope="session")
def aws_auth(orcas_server):
    return {"aws_access_key_id": orcas_server.access_key, "aws_secret_access_key": orcas_server.secret_key}


@pytest.fixture
def moto_server(server_scheme, orcas_server, orcas_control):
    return orcas_server.endpoint
PYTHON
    # `localonly` needs an account at AWS, as in their own runs.
    suite aiobotocore -p orcas_for_moto -m "not localonly" tests/test_basic_s3.py tests/test_monitor.py tests/test_adaptive.py
}

smart_open() {
    suite smart_open -p orcas_for_moto tests/test_s3.py tests/test_s3_version.py tests/test_smart_open.py
}

django-storages() {
    DJANGO_SETTINGS_MODULE=tests.settings suite django-storages -p orcas_for_moto tests/test_s3.py
}

s3path() {
    # The owner is called as that of moto.
    suite s3path -p orcas_for_moto tests --deselect tests/test_path_operations.py::test_owner
}

luigi() {
    # It calls what newer versions of `mock` refuse.
    PYTHONPATH=test suite luigi -p orcas_for_moto -o addopts= test/contrib/s3_test.py \
        --deselect test/contrib/s3_test.py::TestS3Client::test_init_with_config_and_roles
}

servicelayer() {
    # URLs have addresses of AWS.
    local tests=tests/archive/test_s3.py::S3ArchiveTest
    suite servicelayer -p orcas_for_moto tests/archive/test_s3.py \
        --deselect "$tests::test_generate_url" --deselect "$tests::test_publish_file"
}

s3-credentials() {
    suite s3-credentials -p orcas_for_moto tests
}

obstore() {
    cat >>obstore/tests/conftest.py <<'PYTHON'


@pytest.fixture(scope="session")
def minio_config(orcas_server):
    orcas_server.client().create_bucket(Bucket=TEST_BUCKET_NAME)
    config = {
        "bucket": TEST_BUCKET_NAME,
        "endpoint": orcas_server.endpoint,
        "access_key_id": orcas_server.access_key,
        "secret_access_key": orcas_server.secret_key,
        "virtual_hosted_style_request": False,
    }
    return config, {"allow_http": True}
PYTHON
    # These three read from the internet.
    suite obstore -o addopts= tests/test_fsspec.py tests/test_delete.py tests/store \
        --deselect tests/store/test_s3.py::test_from_url \
        --deselect tests/store/test_s3.py::test_pickle --deselect tests/test_fsspec.py::test_remote_parquet
}

cloudpathlib() {
    # Two tests need Azure as well.
    USE_LIVE_CLOUD=1 PATH="$BIN:$PATH" orcas run --bucket test-bucket -- bash -c '
        cd cloudpathlib
        export CUSTOM_S3_BUCKET=test-bucket CUSTOM_S3_ENDPOINT="$AWS_ENDPOINT_URL_S3"
        export CUSTOM_S3_KEY_ID="$AWS_ACCESS_KEY_ID" CUSTOM_S3_SECRET_KEY="$AWS_SECRET_ACCESS_KEY"
        exec python -m pytest --quiet -p no:cacheprovider -o addopts= tests -k "custom_s3_rig and not azure"'
}

status=0
for name in "${@:-${SUITES[@]}}"; do
    printf '\n==== %s ====\n' "$name"
    ("$name") || status=1
done
exit "$status"
