#!/bin/sh
# What modules of Testcontainers for LocalStack call, with a script of their own in place of the entry point.
exec orcas localstack
