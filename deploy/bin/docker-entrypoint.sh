#!/bin/sh
# The entry point of LocalStack's image, which modules of Testcontainers call without words, and that of MinIO's.
[ $# -gt 0 ] || exec orcas localstack
[ "$1" != minio ] || shift
exec orcas minio "$@"
