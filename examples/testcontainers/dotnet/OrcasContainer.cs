using System;
using System.Threading;
using System.Threading.Tasks;
using DotNet.Testcontainers.Builders;
using DotNet.Testcontainers.Containers;

/// <summary>An S3 server in a container, which keeps its store in memory.</summary>
public sealed class OrcasContainer : IAsyncDisposable
{
    private const ushort Port = 9000;
    private readonly IContainer container;

    /// <param name="image">The name of the image.</param>
    /// <param name="buckets">Buckets to create.</param>
    public OrcasContainer(string image = "orcas-s3:latest", params string[] buckets)
    {
        container = new ContainerBuilder(image)
            .WithPortBinding(Port, true)
            .WithCommand("serve", "--memory")
            .WithEnvironment("ORCAS_ROOT_ACCESS_KEY", AccessKey)
            .WithEnvironment("ORCAS_ROOT_SECRET_KEY", SecretKey)
            .WithEnvironment("ORCAS_REGION", Region)
            .WithEnvironment("ORCAS_BUCKETS", string.Join(",", buckets))
            // The shared memory of a container is too small for a store, which then is in /tmp.
            .WithTmpfsMount("/tmp")
            .WithWaitStrategy(Wait.ForUnixContainer().UntilHttpRequestIsSucceeded(
                request => request.ForPath("/_orcas/health/ready").ForPort(Port)))
            .Build();
    }

    public string AccessKey => "testcontainers-orcas";

    public string SecretKey => "testcontainers-orcas";

    public string Region => "us-east-1";

    public string Endpoint => new UriBuilder(Uri.UriSchemeHttp, container.Hostname, container.GetMappedPublicPort(Port)).ToString();

    public Task StartAsync(CancellationToken cancellation = default) => container.StartAsync(cancellation);

    public ValueTask DisposeAsync() => container.DisposeAsync();
}
