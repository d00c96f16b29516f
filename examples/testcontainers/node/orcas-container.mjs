import { AbstractStartedContainer, GenericContainer, Wait } from "testcontainers";

const PORT = 9000;

/** An S3 server in a container, which keeps its store in memory. */
export class OrcasContainer extends GenericContainer {
  #keys = { accessKeyId: "testcontainers-orcas", secretAccessKey: "testcontainers-orcas" };
  #region = "us-east-1";

  /** @param {string} image */
  constructor(image) {
    super(image);
    this.withExposedPorts(PORT);
    this.withCommand(["serve", "--memory"]);
    // The shared memory of a container is too small for a store, which then is in /tmp.
    this.withTmpFs({ "/tmp": "rw" });
    this.withWaitStrategy(Wait.forHttp("/_orcas/health/ready", PORT));
  }

  /** Keys for clients; the secret has at least 8 characters. */
  withKeys(accessKeyId, secretAccessKey) {
    this.#keys = { accessKeyId, secretAccessKey };
    return this;
  }

  withRegion(region) {
    this.#region = region;
    return this;
  }

  /** Buckets to create. */
  withBuckets(...buckets) {
    return this.withEnvironment({ ORCAS_BUCKETS: buckets.join(",") });
  }

  async start() {
    this.withEnvironment({
      ORCAS_ROOT_ACCESS_KEY: this.#keys.accessKeyId,
      ORCAS_ROOT_SECRET_KEY: this.#keys.secretAccessKey,
      ORCAS_REGION: this.#region,
    });
    return new StartedOrcasContainer(await super.start(), this.#keys, this.#region);
  }
}

export class StartedOrcasContainer extends AbstractStartedContainer {
  #keys;
  #region;

  constructor(started, keys, region) {
    super(started);
    this.#keys = keys;
    this.#region = region;
  }

  getEndpoint() {
    return `http://${this.getHost()}:${this.getMappedPort(PORT)}`;
  }

  /** The arguments with which the SDK of AWS creates a client. */
  getClientConfig() {
    return { endpoint: this.getEndpoint(), region: this.#region, credentials: this.#keys, forcePathStyle: true };
  }
}
