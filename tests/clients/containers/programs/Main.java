import org.testcontainers.utility.DockerImageName;

/** Starts a container, says where it is, and ends with its input. */
public class Main {
    public static void main(String[] arguments) throws Exception {
        try (OrcasContainer container = new OrcasContainer(DockerImageName.parse("orcas-s3:latest"))) {
            container.withKeys("an-access-key", "a-secret-key").withBuckets("first", "second").start();
            String[] said = {container.getEndpoint(), container.getAccessKey(), container.getSecretKey(), container.getRegion()};
            System.out.println(String.join(" ", said));
            System.in.readAllBytes();
        }
    }
}
