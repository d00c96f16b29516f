"""Quick start: buckets, objects, metadata, listings, conditional writes and deletions with boto3.

Run it with `python quick_start.py`. It starts a server in memory and leaves nothing behind. To use a server that is
already running, run `eval "$(orcas env)"` in the shell and use `boto3.client("s3")` instead of `orcas.Server`.
"""

from botocore.exceptions import ClientError

import orcas


def main() -> None:
    with orcas.Server(memory=True) as server:
        s3 = server.client()  # the same as boto3.client("s3", endpoint_url=…, aws_access_key_id=…, …)
        s3.create_bucket(Bucket="papers")

        s3.put_object(
            Bucket="papers",
            Key="drafts/thesis.txt",
            Body=b"It was a dark and stormy night.",
            ContentType="text/plain",
            Metadata={"author": "me"},
        )
        answer = s3.get_object(Bucket="papers", Key="drafts/thesis.txt")
        print("read:", answer["Body"].read().decode(), answer["Metadata"])

        for number in range(3):
            s3.put_object(Bucket="papers", Key=f"drafts/chapter-{number}.txt", Body=b"words " * 1000)
        # A page has at most 1,000 keys. The paginator requests all pages.
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket="papers", Prefix="drafts/chapter"):
            for entry in page.get("Contents", []):
                print("listed:", entry["Key"], entry["Size"], "bytes")

        # Only if the key does not exist: of several writers, exactly one succeeds.
        s3.put_object(Bucket="papers", Key="lock", Body=b"mine", IfNoneMatch="*")
        try:
            s3.put_object(Bucket="papers", Key="lock", Body=b"yours", IfNoneMatch="*")
        except ClientError as error:
            print("refused:", error.response["Error"]["Code"])

        keys = [{"Key": f"drafts/chapter-{number}.txt"} for number in range(3)]
        deleted = s3.delete_objects(Bucket="papers", Delete={"Objects": keys})["Deleted"]
        print("deleted:", len(deleted), "objects")


if __name__ == "__main__":
    main()
