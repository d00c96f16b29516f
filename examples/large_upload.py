"""Upload a large file in parallel parts with checksums that the server verifies.

Run it with `python large_upload.py`. It creates a file of 40 MiB, uploads it in parts of 8 MiB with a SHA-256 for each
part, downloads it in parallel, and compares. Then it shows that the server refuses a part that was changed on its way.
"""

import base64
import hashlib
import os
import tempfile
from pathlib import Path

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

import orcas

MIB = 1 << 20
SIZE = 40 * MIB
PARTS = TransferConfig(multipart_threshold=16 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, orcas.Server(memory=True) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="films")
        original, copy = Path(directory, "film.mp4"), Path(directory, "copy.mp4")
        original.write_bytes(os.urandom(MIB) * (SIZE // MIB))

        # boto3 computes the checksum of each part. The server refuses a part whose content does not match.
        s3.upload_file(str(original), "films", "film.mp4", ExtraArgs={"ChecksumAlgorithm": "SHA256"}, Config=PARTS)
        head = s3.head_object(Bucket="films", Key="film.mp4", ChecksumMode="ENABLED")
        print("stored:", head["ContentLength"], "bytes in", head["ETag"].strip('"').partition("-")[2], "parts")
        print("checksum:", head["ChecksumSHA256"], head["ChecksumType"])

        s3.download_file("films", "film.mp4", str(copy), Config=PARTS)
        print("downloaded file is the same:", sha256(copy) == sha256(original))

        # By hand, with a checksum of other bytes than those that are sent.
        upload = s3.create_multipart_upload(Bucket="films", Key="broken.mp4", ChecksumAlgorithm="SHA256")
        place = {"Bucket": "films", "Key": "broken.mp4", "UploadId": upload["UploadId"]}
        meant = base64.b64encode(hashlib.sha256(b"what was meant").digest()).decode()
        try:
            s3.upload_part(**place, PartNumber=1, Body=b"what arrived", ChecksumSHA256=meant)
        except ClientError as error:
            print("changed part:", error.response["Error"]["Code"])
        # Until an upload is completed or aborted, its parts take space.
        s3.abort_multipart_upload(**place)
        print("uploads left:", len(s3.list_multipart_uploads(Bucket="films").get("Uploads", [])))


if __name__ == "__main__":
    main()
