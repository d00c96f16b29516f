# shellcheck shell=bash
# Other people's clients, and the console in a browser. Each has an environment of its own. Sourced by .ci/run.

# Clients are installed in separate environments below target/clients, because no other section needs these large
# packages. Those of constraints-async.txt need an older botocore. npm, Node.js, Go and Maven are
# used if installed.
clients() {
    local status=0
    fetch_package restic
    fetch_go_clients
    fetch_testcontainers
    fetch_kit
    if command -v npm >/dev/null; then
        npm ci --prefix tests/clients/javascript --no-audit --no-fund --loglevel error
    fi
    local VENV=target/clients/venv BIN=target/clients/venv/bin
    install test,clients "$PROFILE"
    fetch_suites
    header "clients"
    "$BIN/python" -m pytest tests/clients ${FULL:+-m "full or not full"} || status=$?
    VENV=target/clients/venv-async BIN=target/clients/venv-async/bin
    install clients-async "$PROFILE" .ci/constraints-async.txt
    header "clients on aiobotocore"
    "$BIN/python" -m pytest tests/clients/test_aioboto3.py tests/clients/test_s3fs.py \
        tests/clients/documents/test_use_with.py || status=$?
    return "$status"
}

# The console in a browser: everything that takes clicks and keys. Needs Debian's package chromium.
console() {
    if ! command -v chromium >/dev/null; then
        echo "Chromium is not installed: the tests of the console in a browser are skipped."
        echo "console: skipped, there is no chromium" >>"$SKIPPED"
        return
    fi
    local VENV=target/console/venv BIN=target/console/venv/bin
    install test,console-test "$PROFILE"
    header "the console in Chromium"
    "$BIN/python" -m pytest tests/console/browser
}
