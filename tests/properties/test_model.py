"""Random sequences of calls through boto3, compared with the model. The server is restarted and killed between calls.

Every run has the same sequences. A failure prints the shortest failing sequence, and a blob that repeats it.
"""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Signer

from .calls import EXAMPLES, KEYS, LUCK, compare, tag_sets, tags_in
from .machines import Machines
from .model import PART_SIZE_MIN, Bucket, Metadata, Object, S3Error, Upload, md5
from .snapshots import FORK, SNAPSHOTS, SnapshotRules

BUCKETS = ("one", "two")
PREFIXES = ("", "a", "a/", "b", "é", "/", "nothing")
SIZES = (0, 1, 257, 4096, 65_536, 65_537, 300_000)

keys = st.sampled_from(KEYS)
buckets = st.sampled_from((*BUCKETS[:1] * 4, *BUCKETS, FORK))
# The index, modulo their number, of a key that has an object; beyond LUCK, any key.
picks = st.integers(0, LUCK + 10)
bodies = st.builds(content_of, st.integers(0, 5), st.sampled_from(SIZES))
metadata = st.sampled_from(((), (("color", "red"),), (("color", "blue"), ("empty", ""))))


class S3Machine(SnapshotRules):
    """Each rule makes the same call to the server and the model, and compares the answers."""

    # Buckets.

    @initialize(first=st.sets(keys, min_size=2), second=st.sets(keys), layered=st.booleans())
    def begin(self, first: set[str], second: set[str], layered: bool) -> None:
        for bucket, chosen in zip(BUCKETS, (first, second), strict=True):
            self.create_bucket(bucket)
            for key in sorted(chosen):
                self.put_object(bucket, key, content_of(key, 100 * len(key)), (), 0)
        if layered:
            self.create_snapshot(BUCKETS[0], SNAPSHOTS[0])
            self.fork(BUCKETS[0], FORK, None)

    @rule(bucket=st.just("two"))
    def create_bucket(self, bucket: str) -> None:
        self.both(lambda: self.client.create_bucket(Bucket=self.name(bucket)), lambda: self.model.create_bucket(bucket))

    @rule(bucket=st.just("two"))
    def delete_bucket(self, bucket: str) -> None:
        self.both(lambda: self.client.delete_bucket(Bucket=self.name(bucket)), lambda: self.model.delete_bucket(bucket))

    @rule()
    def list_buckets(self) -> None:
        listed = [entry["Name"] for entry in self.client.list_buckets()["Buckets"]]
        mine = [name for name in listed if name.startswith(f"example-{self.example}-")]
        assert mine == sorted(self.name(bucket) for bucket in self.model.buckets)

    # Objects.

    @rule(bucket=buckets, key=keys, body=bodies, data=metadata, choice=st.sampled_from((0, 0, 0, 0, 1, 2, 3)))
    def put_object(self, bucket: str, key: str, body: bytes, data: Metadata, choice: int) -> None:
        arguments, condition = self.condition(bucket, key, choice)
        new = Object(body, md5(body), data, "text/x-model" if data else "binary/octet-stream")
        answer, stored = self.both(
            lambda: self.put(bucket, key, new, ContentType=new.content_type, **arguments),
            lambda: self.model.put_object(bucket, key, new, condition),
        )
        if stored:
            assert answer["ETag"] == f'"{stored.etag}"'

    @rule(
        bucket=buckets, pick=picks, name=st.integers(0, 5), size=st.sampled_from((1, 257, 65_537)), data=metadata,
        off=st.sampled_from((0, 0, 0, 0, 1)), choice=st.sampled_from((0, 0, 0, 1, 2, 3)),
    )  # fmt: skip
    def append(self, bucket: str, pick: int, name: int, size: int, data: Metadata, off: int, choice: int) -> None:
        key = self.pick(bucket, pick)
        found = self.model.buckets.get(bucket, Bucket()).objects.get(key)
        arguments, condition = self.condition(bucket, key, choice)
        body, offset = content_of(name, size), off + (len(found.body) if found else 0)
        new = Object(body, md5(body), () if found else data)
        answer, stored = self.both(
            lambda: self.put(bucket, key, new, WriteOffsetBytes=offset, **arguments),
            lambda: self.model.append(bucket, key, offset, new, condition),
        )
        if stored:
            assert answer["ETag"] == f'"{stored.etag}"'

    def check_head(self, answer: Any, expected: Object) -> None:
        assert answer["ETag"] == f'"{expected.etag}"'
        assert answer["Metadata"] == dict(expected.metadata)
        assert answer["ContentType"] == expected.content_type
        assert answer.get("TagCount", 0) == len(expected.tags)

    @rule(bucket=buckets, pick=picks)
    def get_object(self, bucket: str, pick: int) -> None:
        key = self.pick(bucket, pick)
        answer, expected = self.both(
            lambda: self.client.get_object(Bucket=self.name(bucket), Key=key), lambda: self.model.object(bucket, key)
        )
        if expected:
            assert answer["Body"].read() == expected.body
            self.check_head(answer, expected)
            if expected.tags:
                tagging = self.client.get_object_tagging(Bucket=self.name(bucket), Key=key)
                assert tags_in(tagging) == expected.tags

    @rule(bucket=buckets, pick=picks, tags=tag_sets)
    def put_object_tagging(self, bucket: str, pick: int, tags: Metadata) -> None:
        key = self.pick(bucket, pick)
        self.both(lambda: self.put_tags(bucket, key, tags), lambda: self.model.put_object_tagging(bucket, key, tags))

    @rule(bucket=buckets, pick=picks)
    def head_object(self, bucket: str, pick: int) -> None:
        key = self.pick(bucket, pick)
        answer, expected = self.both(
            lambda: self.client.head_object(Bucket=self.name(bucket), Key=key), lambda: self.model.object(bucket, key)
        )
        if expected:
            assert answer["ContentLength"] == len(expected.body)
            self.check_head(answer, expected)

    @rule(bucket=buckets, pick=picks, first=st.sampled_from((0, 1, 99, 65_535, 400_000)),
          length=st.sampled_from((1, 2, 100, 65_536)), form=st.integers(0, 2))  # fmt: skip
    def get_range(self, bucket: str, pick: int, first: int, length: int, form: int) -> None:
        key = self.pick(bucket, pick)
        texts = (f"bytes={first}-{first + length - 1}", f"bytes={first}-", f"bytes=-{length}")

        def part() -> tuple[bytes, Object]:
            found = self.model.object(bucket, key)
            end = len(found.body)
            body = found.body[(slice(first, first + length), slice(first, end), slice(max(0, end - length), end))[form]]
            if not body:
                raise S3Error("InvalidRange")
            return body, found

        answer, expected = self.both(
            lambda: self.client.get_object(Bucket=self.name(bucket), Key=key, Range=texts[form]), part
        )
        if expected:
            assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
            assert answer["Body"].read() == expected[0]
            self.check_head(answer, expected[1])
            assert answer["ContentRange"].endswith(f"/{len(expected[1].body)}")

    @rule(bucket=buckets, pick=picks, matches=st.booleans(), none=st.booleans())
    def get_if(self, bucket: str, pick: int, matches: bool, none: bool) -> None:
        key = self.pick(bucket, pick)
        found = self.model.buckets.get(bucket, Bucket()).objects.get(key)
        etag = f'"{found.etag}"' if found and matches else '"other"'

        def judge() -> Object:
            current = self.model.object(bucket, key)
            if none and matches:
                raise S3Error("304")
            if not none and not matches:
                raise S3Error("PreconditionFailed")
            return current

        condition = {"IfNoneMatch" if none else "IfMatch": etag}
        answer, expected = self.both(
            lambda: self.client.get_object(Bucket=self.name(bucket), Key=key, **condition), judge
        )
        if expected:
            assert answer["Body"].read() == expected.body

    @rule(bucket=buckets, pick=picks)
    def delete_object(self, bucket: str, pick: int) -> None:
        key = self.pick(bucket, pick)
        self.both(
            lambda: self.client.delete_object(Bucket=self.name(bucket), Key=key),
            lambda: self.model.delete_object(bucket, key),
        )

    @rule(bucket=buckets, prefix=st.sampled_from(PREFIXES[1:]))
    def expire(self, bucket: str, prefix: str) -> None:
        past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        every = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": prefix}, "Expiration": {"Date": past}}

        def real() -> None:
            self.client.put_bucket_lifecycle_configuration(
                Bucket=self.name(bucket), LifecycleConfiguration={"Rules": [every]}
            )
            self.place.apply_lifecycle_rules()
            self.place.client.delete_bucket_lifecycle(Bucket=self.name(bucket))

        self.both(real, lambda: self.model.expire(bucket, prefix))

    @rule(bucket=buckets, several=st.sets(st.sampled_from([key for key in KEYS if "\n" not in key]), min_size=1))
    def delete_objects(self, bucket: str, several: set[str]) -> None:
        def modelled() -> list[str]:
            self.model.bucket(bucket)
            for key in several:
                self.model.delete_object(bucket, key)
            return sorted(several)

        answer, expected = self.both(
            lambda: self.client.delete_objects(
                Bucket=self.name(bucket), Delete={"Objects": [{"Key": key} for key in sorted(several)]}
            ),
            modelled,
        )
        if expected:
            assert sorted(entry["Key"] for entry in answer["Deleted"]) == expected
            assert "Errors" not in answer

    @rule(source_bucket=buckets, pick=picks, bucket=buckets, key=keys, replacement=st.none() | metadata)
    def copy_object(self, source_bucket: str, pick: int, bucket: str, key: str, replacement: Metadata | None) -> None:
        source = self.pick(source_bucket, pick)
        directive: dict[str, Any] = {}
        if replacement is not None:
            directive = {"MetadataDirective": "REPLACE", "Metadata": dict(replacement)}
        answer, expected = self.both(
            lambda: self.client.copy_object(
                Bucket=self.name(bucket),
                Key=key,
                CopySource={"Bucket": self.name(source_bucket), "Key": source},
                **directive,
            ),
            lambda: self.model.copy_object((source_bucket, source), bucket, key, replacement),
        )
        if expected:
            assert answer["CopyObjectResult"]["ETag"] == f'"{expected.etag}"'

    @rule(bucket=buckets, pick=picks, key=keys)
    def rename_object(self, bucket: str, pick: int, key: str) -> None:
        source = self.pick(bucket, pick)

        def real() -> None:
            signer = Signer.of(self.place.server)
            headers = [("x-amz-rename-source", f"/{self.name(bucket)}/{quote(source, safe='/')}")]
            self.calls += 1
            answer = signer.roundtrip(
                signer.request("PUT", f"/{self.name(bucket)}/{key}", [("renameObject", "")], headers)
            )
            if answer.status != 200:
                raise ClientError({"Error": {"Code": answer.code}}, "RenameObject")

        self.both(real, lambda: self.model.rename_object(bucket, source, key))

    # Listings.

    def check_contents(self, page: Any, entries: list[tuple[str, Object | None]]) -> None:
        contents = [(key, found) for key, found in entries if found is not None]
        assert [entry["Key"] for entry in page.get("Contents", [])] == [key for key, _ in contents]
        assert [entry["Size"] for entry in page.get("Contents", [])] == [len(found.body) for _, found in contents]
        assert [entry["ETag"] for entry in page.get("Contents", [])] == [f'"{found.etag}"' for _, found in contents]
        prefixes = [name for name, found in entries if found is None]
        assert [entry["Prefix"] for entry in page.get("CommonPrefixes", [])] == prefixes

    @rule(
        bucket=buckets, prefix=st.sampled_from(PREFIXES), delimiter=st.sampled_from(("", "/", "b")),
        after=st.sampled_from(("", *KEYS)), size=st.sampled_from((1, 2, 3, 1000)), version=st.integers(1, 2),
    )  # fmt: skip
    def list_objects(self, bucket: str, prefix: str, delimiter: str, after: str, size: int, version: int) -> None:
        """Every page, in either version."""
        call = self.place.client.list_objects if version == 1 else self.place.client.list_objects_v2
        arguments: dict[str, Any] = {"Bucket": self.name(bucket), "Prefix": prefix, "MaxKeys": size}
        if delimiter:
            arguments["Delimiter"] = delimiter
        if after:
            arguments["Marker" if version == 1 else "StartAfter"] = after
        self.calls += 1
        page, entries = self.both(
            lambda: call(**arguments),
            lambda: self.model.list_entries(bucket, prefix, delimiter, after, version=version),
        )
        while page is not None:
            assert page["IsTruncated"] == (len(entries) > size)
            self.check_contents(page, entries[:size])
            if not page["IsTruncated"]:
                return
            last = entries[size - 1][0]
            if version == 1:
                # Without a delimiter, S3 returns no marker: the client takes the last key.
                assert page.get("NextMarker", last) == last
                arguments["Marker"] = last
            else:
                arguments["ContinuationToken"] = page["NextContinuationToken"]
            entries = entries[size:]
            page = call(**arguments)

    # Multipart uploads.

    def an_upload(self, bucket: str, choice: int) -> tuple[str, Upload] | None:
        uploads = sorted(self.model.buckets.get(bucket, Bucket()).uploads.items())
        return uploads[choice % len(uploads)] if uploads else None

    @rule(bucket=buckets, key=keys, data=metadata)
    def create_multipart_upload(self, bucket: str, key: str, data: Metadata) -> None:
        answer, found = self.both(
            lambda: self.client.create_multipart_upload(Bucket=self.name(bucket), Key=key, Metadata=dict(data)),
            lambda: self.model.bucket(bucket),
        )
        if found:
            found.uploads[answer["UploadId"]] = Upload(key, data, "binary/octet-stream")

    @rule(
        bucket=buckets, choice=st.integers(0, 3), number=st.sampled_from((1, 2, 3, 10_000)),
        size=st.sampled_from((10, 70_000, PART_SIZE_MIN, PART_SIZE_MIN)), name=st.integers(0, 5),
    )  # fmt: skip
    def upload_part(self, bucket: str, choice: int, number: int, size: int, name: int) -> None:
        if found := self.an_upload(bucket, choice):
            upload_id, upload = found
            body = content_of(name, size)
            answer = self.client.upload_part(
                Bucket=self.name(bucket), Key=upload.key, UploadId=upload_id, PartNumber=number, Body=body
            )
            assert answer["ETag"] == f'"{md5(body)}"'
            upload.parts[number] = body

    @rule(bucket=buckets, choice=st.integers(0, 3), number=st.integers(1, 3), source_bucket=buckets, pick=picks,
          whole=st.booleans())  # fmt: skip
    def upload_part_copy(
        self, bucket: str, choice: int, number: int, source_bucket: str, pick: int, whole: bool
    ) -> None:
        source = self.pick(source_bucket, pick)
        if found := self.an_upload(bucket, choice):
            upload_id, upload = found
            chosen = {} if whole else {"CopySourceRange": "bytes=0-99"}

            def modelled() -> bytes:
                body = self.model.object(source_bucket, source).body
                if not whole and len(body) < 100:
                    raise S3Error("InvalidRange", "InvalidArgument", "InvalidRequest")
                return body if whole else body[:100]

            answer, body = self.both(
                lambda: self.client.upload_part_copy(
                    Bucket=self.name(bucket), Key=upload.key, UploadId=upload_id, PartNumber=number,
                    CopySource={"Bucket": self.name(source_bucket), "Key": source}, **chosen,
                ),
                modelled,
            )  # fmt: skip
            if body is not None:
                assert answer["CopyPartResult"]["ETag"] == f'"{md5(body)}"'
                upload.parts[number] = body

    @rule(bucket=buckets, choice=st.integers(0, 3), numbers=st.lists(st.integers(1, 3), max_size=3),
          every=st.sampled_from((True, True, False)),
          condition_choice=st.sampled_from((0, 0, 0, 0, 1, 2, 3)))  # fmt: skip
    def complete_multipart_upload(
        self, bucket: str, choice: int, numbers: list[int], every: bool, condition_choice: int
    ) -> None:
        found = self.an_upload(bucket, choice)
        if found is None:
            return
        upload_id, upload = found
        numbers = sorted(upload.parts) if every else numbers
        if not numbers:
            return
        arguments, condition = self.condition(bucket, upload.key, condition_choice)
        parts = [{"PartNumber": number, "ETag": f'"{md5(upload.parts.get(number, b""))}"'} for number in numbers]
        answer, expected = self.both(
            lambda: self.client.complete_multipart_upload(
                Bucket=self.name(bucket),
                Key=upload.key,
                UploadId=upload_id,
                MultipartUpload={"Parts": parts},
                **arguments,
            ),
            lambda: self.model.complete_multipart_upload(bucket, upload.key, upload_id, numbers, condition),
        )
        if expected:
            assert answer["ETag"] == f'"{expected.etag}"'

    @rule(bucket=buckets, choice=st.integers(0, 3))
    def abort_multipart_upload(self, bucket: str, choice: int) -> None:
        if found := self.an_upload(bucket, choice):
            upload_id, upload = found
            arguments = {"Bucket": self.name(bucket), "Key": upload.key, "UploadId": upload_id}
            self.client.abort_multipart_upload(**arguments)
            del self.model.buckets[bucket].uploads[upload_id]
            with pytest.raises(ClientError, match="NoSuchUpload"):
                self.client.list_parts(**arguments)

    @rule(bucket=buckets, choice=st.integers(0, 3))
    def list_parts(self, bucket: str, choice: int) -> None:
        if found := self.an_upload(bucket, choice):
            upload_id, upload = found
            answer = self.client.list_parts(Bucket=self.name(bucket), Key=upload.key, UploadId=upload_id)
            listed = [(part["PartNumber"], part["Size"], part["ETag"]) for part in answer.get("Parts", [])]
            assert listed == [(n, len(body), f'"{md5(body)}"') for n, body in sorted(upload.parts.items())]

    @rule(bucket=buckets)
    def list_multipart_uploads(self, bucket: str) -> None:
        answer, found = self.both(
            lambda: self.client.list_multipart_uploads(Bucket=self.name(bucket)), lambda: self.model.bucket(bucket)
        )
        if found:
            listed = sorted((entry["Key"], entry["UploadId"]) for entry in answer.get("Uploads", []))
            assert listed == sorted((upload.key, upload_id) for upload_id, upload in found.uploads.items())

    def check_everything(self) -> None:
        for bucket, found in self.model.buckets.items():
            self.list_objects(bucket, "", "", "", 1000, 2)
            self.list_multipart_uploads(bucket)
            for choice in range(len(found.uploads)):
                self.list_parts(bucket, choice)
            for pick in range(len(found.objects)):
                self.get_object(bucket, pick)

    def teardown(self) -> None:
        self.check_everything()
        for version in (1, 2):
            # Below a common prefix.
            self.list_objects(BUCKETS[0], "", "/", "a/b", 2, version)
        self.read_snapshots()
        for bucket, found in self.model.buckets.items():
            for upload_id, upload in found.uploads.items():
                arguments = {"Bucket": self.name(bucket), "Key": upload.key, "UploadId": upload_id}
                self.place.client.abort_multipart_upload(**arguments)
            for key in found.objects:
                self.place.client.delete_object(Bucket=self.name(bucket), Key=key)
            self.place.client.delete_bucket(Bucket=self.name(bucket))


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.timeout(600)
def test_the_store_is_what_the_model_says(place: Machines, examples: int) -> None:
    compare(place, S3Machine, examples=examples, steps=50)
