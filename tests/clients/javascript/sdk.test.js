// The AWS SDK for JavaScript, version 3, against the server that the environment names.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { after, before, test } from "node:test";

import {
  CopyObjectCommand, CreateBucketCommand, DeleteObjectsCommand, GetObjectCommand, GetObjectTaggingCommand,
  HeadObjectCommand, ListObjectVersionsCommand, NoSuchBucket, NoSuchKey, NotFound, PutBucketVersioningCommand,
  PutObjectCommand, PutObjectTaggingCommand, S3Client, paginateListObjectsV2, waitUntilObjectExists,
  waitUntilObjectNotExists,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const MIB = 1 << 20;
const { ORCAS_TEST_AWKWARD, ORCAS_TEST_LISTED, ORCAS_TEST_MANY, ORCAS_TEST_WRONG_SECRET } = process.env;
const AWKWARD = JSON.parse(ORCAS_TEST_AWKWARD);
const Bucket = `js-${randomUUID()}`;
const settings = { endpoint: process.env.AWS_ENDPOINT_URL_S3, region: process.env.AWS_REGION, forcePathStyle: true, maxAttempts: 1 };
const client = new S3Client(settings);

const send = (Command, input) => client.send(new Command({ Bucket, ...input }));
const text = async (Key, more = {}) => (await send(GetObjectCommand, { Key, ...more })).Body.transformToString();

function bytes(length) {
  const made = Buffer.alloc(length);
  for (let at = 0; at < length; at += 1) made[at] = (at * 7919) >> 5;
  return made;
}

before(() => send(CreateBucketCommand, {}));
after(() => client.destroy());

for (const Key of AWKWARD) {
  test(`an object named ${Key}`, async () => {
    await send(PutObjectCommand, { Key, Body: "content", Metadata: { m: "1" }, ContentType: "x/y" });
    assert.equal(await text(Key), "content");
    const head = await send(HeadObjectCommand, { Key });
    assert.deepEqual([head.ContentLength, head.ContentType, head.Metadata], [7, "x/y", { m: "1" }]);
    assert.equal(await text(Key, { Range: "bytes=2-3" }), "nt");
    await send(CopyObjectCommand, { Key: `copy of ${Key}`, CopySource: encodeURIComponent(`${Bucket}/${Key}`) });
    assert.equal(await text(`copy of ${Key}`), "content");
    const url = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key }), { expiresIn: 60 });
    assert.equal(await (await fetch(url)).text(), "content");
    const doomed = { Objects: [{ Key }, { Key: `copy of ${Key}` }] };
    assert.equal((await send(DeleteObjectsCommand, { Delete: doomed })).Deleted.length, 2);
    await assert.rejects(send(GetObjectCommand, { Key }), NoSuchKey);
  });
}

test("a stream in parts", async () => {
  const body = bytes(12 * MIB + 1);
  const pieces = [];
  for (let at = 0; at < body.length; at += 100_000) pieces.push(body.subarray(at, at + 100_000));
  const params = { Bucket, Key: "parts", Body: Readable.from(pieces) };
  await new Upload({ client, params, partSize: 5 * MIB, queueSize: 4 }).done();
  const answer = await send(GetObjectCommand, { Key: "parts", ChecksumMode: "ENABLED" });
  assert.match(answer.ETag, /-3"$/);
  assert.ok(body.equals(await answer.Body.transformToByteArray()));
});

test("a stream of known length in one request", async () => {
  const body = bytes(9 * MIB);
  await send(PutObjectCommand, { Key: "stream", Body: Readable.from([body]), ContentLength: body.length });
  assert.ok(body.equals(await (await send(GetObjectCommand, { Key: "stream" })).Body.transformToByteArray()));
});

for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
  test(`checksums of ${ChecksumAlgorithm}`, async () => {
    const Key = ChecksumAlgorithm;
    await send(PutObjectCommand, { Key, Body: "content", ChecksumAlgorithm });
    const answer = await send(GetObjectCommand, { Key, ChecksumMode: "ENABLED" });
    assert.ok(answer[`Checksum${ChecksumAlgorithm}`]);
    assert.equal(await answer.Body.transformToString(), "content");
  });
}

test("more than a page", async () => {
  let found = 0;
  for await (const page of paginateListObjectsV2({ client }, { Bucket: ORCAS_TEST_LISTED })) {
    found += page.Contents.length;
  }
  assert.equal(found, Number(ORCAS_TEST_MANY));
});

test("waiters", async () => {
  const waiting = waitUntilObjectExists({ client, minDelay: 1, maxDelay: 1, maxWaitTime: 20 }, { Bucket, Key: "later" });
  await send(PutObjectCommand, { Key: "later", Body: "x" });
  assert.equal((await waiting).state, "SUCCESS");
  await send(DeleteObjectsCommand, { Delete: { Objects: [{ Key: "later" }] } });
  await waitUntilObjectNotExists({ client, minDelay: 1, maxDelay: 1, maxWaitTime: 20 }, { Bucket, Key: "later" });
});

test("tags, versions, conditional writes", async () => {
  await send(PutObjectCommand, { Key: "k", Body: "1", IfNoneMatch: "*", Tagging: "a=1" });
  const refused = { name: "PreconditionFailed", $fault: "client" };
  await assert.rejects(send(PutObjectCommand, { Key: "k", Body: "2", IfNoneMatch: "*" }), refused);
  await send(PutObjectTaggingCommand, { Key: "k", Tagging: { TagSet: [{ Key: "b ü", Value: "2+" }] } });
  assert.deepEqual((await send(GetObjectTaggingCommand, { Key: "k" })).TagSet, [{ Key: "b ü", Value: "2+" }]);
  const versioned = { Bucket: `${Bucket}-v` };
  await send(CreateBucketCommand, versioned);
  await send(PutBucketVersioningCommand, { ...versioned, VersioningConfiguration: { Status: "Enabled" } });
  const first = await send(PutObjectCommand, { ...versioned, Key: "k", Body: "first" });
  await send(PutObjectCommand, { ...versioned, Key: "k", Body: "second" });
  assert.equal(await text("k", { ...versioned, VersionId: first.VersionId }), "first");
  assert.equal((await send(ListObjectVersionsCommand, versioned)).Versions.length, 2);
});

test("a presigned upload and a form", async () => {
  const put = new PutObjectCommand({ Bucket, Key: "presigned" });
  const sent = await fetch(await getSignedUrl(client, put, { expiresIn: 60 }), { method: "PUT", body: "content" });
  assert.equal(sent.status, 200);
  assert.equal(await text("presigned"), "content");
  const { url, fields } = await createPresignedPost(client, { Bucket, Key: "form", Expires: 60 });
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", new Blob(["posted"]), "file");
  assert.equal((await fetch(url, { method: "POST", body: form })).status, 204);
  assert.equal(await text("form"), "posted");
});

test("errors", async () => {
  await assert.rejects(send(HeadObjectCommand, { Key: "none" }), NotFound);
  await assert.rejects(send(GetObjectCommand, { Bucket: `${Bucket}-none`, Key: "k" }), NoSuchBucket);
  const credentials = { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: ORCAS_TEST_WRONG_SECRET };
  const stranger = new S3Client({ ...settings, credentials });
  await assert.rejects(stranger.send(new GetObjectCommand({ Bucket, Key: "k" })), { name: "SignatureDoesNotMatch" });
});
