import java.util.Map;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/** An S3 server in a container, which keeps its store in memory. */
public class OrcasContainer extends GenericContainer<OrcasContainer> {
    private static final int PORT = 9000;

    private String accessKey = "testcontainers-orcas";
    private String secretKey = "testcontainers-orcas";

    public OrcasContainer(DockerImageName image) {
        super(image);
        withExposedPorts(PORT);
        withCommand("serve", "--memory");
        // The shared memory of a container is too small for a store, which then is in /tmp.
        withTmpFs(Map.of("/tmp", "rw"));
        waitingFor(Wait.forHttp("/_orcas/health/ready").forPort(PORT));
    }

    /** Keys for clients; the secret has at least 8 characters. */
    public OrcasContainer withKeys(String accessKey, String secretKey) {
        this.accessKey = accessKey;
        this.secretKey = secretKey;
        return self();
    }

    /** Buckets to create. */
    public OrcasContainer withBuckets(String... buckets) {
        return withEnv("ORCAS_BUCKETS", String.join(",", buckets));
    }

    @Override
    protected void configure() {
        addEnv("ORCAS_ROOT_ACCESS_KEY", accessKey);
        addEnv("ORCAS_ROOT_SECRET_KEY", secretKey);
    }

    public String getEndpoint() {
        return "http://" + getHost() + ":" + getMappedPort(PORT);
    }

    public String getAccessKey() {
        return accessKey;
    }

    public String getSecretKey() {
        return secretKey;
    }

    public String getRegion() {
        return getEnvMap().getOrDefault("ORCAS_REGION", "us-east-1");
    }
}
