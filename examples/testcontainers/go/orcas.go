// Package orcas starts an S3 server in a container, which keeps its store in memory.
package orcas

import (
	"context"
	"strings"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const port = "9000/tcp"

// Container is a running server.
type Container struct {
	testcontainers.Container
	Endpoint, AccessKey, SecretKey, Region string
}

// WithKeys sets the keys for clients; the secret has at least 8 characters.
func WithKeys(accessKey, secretKey string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithEnv(map[string]string{
		"ORCAS_ROOT_ACCESS_KEY": accessKey, "ORCAS_ROOT_SECRET_KEY": secretKey,
	})
}

// WithBuckets creates buckets.
func WithBuckets(buckets ...string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithEnv(map[string]string{"ORCAS_BUCKETS": strings.Join(buckets, ",")})
}

// Run starts a container. If it fails, what it returns may be a container to be terminated.
func Run(ctx context.Context, image string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	request := testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        image,
			ExposedPorts: []string{port},
			Cmd:          []string{"serve", "--memory"},
			Env: map[string]string{
				"ORCAS_ROOT_ACCESS_KEY": "testcontainers-orcas",
				"ORCAS_ROOT_SECRET_KEY": "testcontainers-orcas",
				"ORCAS_REGION":          "us-east-1",
			},
			// The shared memory of a container is too small for a store, which then is in /tmp.
			Tmpfs:      map[string]string{"/tmp": "rw"},
			WaitingFor: wait.ForHTTP("/_orcas/health/ready").WithPort(port),
		},
		Started: true,
	}
	for _, option := range options {
		if err := option.Customize(&request); err != nil {
			return nil, err
		}
	}
	started, err := testcontainers.GenericContainer(ctx, request)
	if started == nil {
		return nil, err
	}
	container := &Container{
		Container: started,
		AccessKey: request.Env["ORCAS_ROOT_ACCESS_KEY"],
		SecretKey: request.Env["ORCAS_ROOT_SECRET_KEY"],
		Region:    request.Env["ORCAS_REGION"],
	}
	if err == nil {
		container.Endpoint, err = started.PortEndpoint(ctx, port, "http")
	}
	return container, err
}
