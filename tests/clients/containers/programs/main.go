// Starts a container, says where it is, and ends with its input.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"orcas.test/orcas"
)

func main() {
	ctx := context.Background()
	container, err := orcas.Run(ctx, "orcas-s3:latest", orcas.WithKeys("an-access-key", "a-secret-key"), orcas.WithBuckets("first", "second"))
	if err != nil {
		panic(err)
	}
	fmt.Println(container.Endpoint, container.AccessKey, container.SecretKey, container.Region)
	io.Copy(io.Discard, os.Stdin)
	if err := container.Terminate(ctx); err != nil {
		panic(err)
	}
}
