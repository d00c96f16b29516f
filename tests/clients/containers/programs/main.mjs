// Starts a container, says where it is, and ends with its input.
import { OrcasContainer } from "./orcas-container.mjs";

const container = await new OrcasContainer("orcas-s3:latest")
  .withKeys("an-access-key", "a-secret-key")
  .withBuckets("first", "second")
  .start();
const { endpoint, region, credentials } = container.getClientConfig();
console.log(endpoint, credentials.accessKeyId, credentials.secretAccessKey, region);
for await (const _ of process.stdin);
await container.stop();
