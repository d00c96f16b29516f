import boto3

from testcontainers.community.orcas import OrcasContainer


def basic_example() -> None:
    with OrcasContainer(buckets=["test-bucket"]) as orcas:
        client = boto3.client("s3", **orcas.get_client_config())
        print(f"Connected to Orcas at {orcas.get_url()}")

        # Upload test files
        for filename in ("test1.txt", "folder1/test2.txt"):
            client.put_object(Bucket="test-bucket", Key=filename, Body=f"Hello from {filename}".encode())
            print(f"Uploaded {filename}")

        # List objects
        print("Objects in bucket:")
        for entry in client.list_objects_v2(Bucket="test-bucket")["Contents"]:
            print(f"- {entry['Key']} (size: {entry['Size']} bytes)")

        # Get object
        content = client.get_object(Bucket="test-bucket", Key="test1.txt")["Body"].read().decode()
        print(f"test1.txt: {content}")

        # Generate presigned URL
        arguments = {"Bucket": "test-bucket", "Key": "test1.txt"}
        print(f"Presigned URL: {client.generate_presigned_url('get_object', Params=arguments)}")


if __name__ == "__main__":
    basic_example()
