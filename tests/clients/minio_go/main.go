// Prints the events of a bucket as minio-go returns them, one JSON document a line, until its input ends or an error comes.
//
//	minio_go ENDPOINT BUCKET PREFIX SUFFIX EVENT…
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func main() {
	endpoint, bucket, prefix, suffix, events := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]
	client, err := minio.New(endpoint, &minio.Options{Creds: credentials.NewEnvAWS(), Region: os.Getenv("AWS_REGION")})
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for info := range client.ListenBucketNotification(ctx, bucket, prefix, suffix, events) {
		if info.Err != nil && ctx.Err() == nil {
			fail(info.Err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(info); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
