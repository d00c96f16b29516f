"""AWS's IAM API on the endpoint of S3: the query protocol around the actions of `orcas.control.identities`."""
