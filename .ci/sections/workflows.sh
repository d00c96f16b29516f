# shellcheck shell=bash
# The linters of workflows. Sourced by .ci/run.

# The version of the linter of workflows.
ACTIONLINT=v1.7.12

# Lints workflows and actions: the syntax with actionlint, a Go module, and what may be misused with zizmor.
workflows() {
    local place="$PWD/target/actionlint"
    header "workflows"
    "$BIN/zizmor" --quiet --offline --min-severity medium .github
    if ! command -v go >/dev/null; then
        echo "Go is not installed: actionlint does not read the workflows."
        return
    fi
    if ! go version -m "$place/actionlint" 2>/dev/null | grep -q "actionlint.$ACTIONLINT"; then
        CGO_ENABLED=0 GOBIN="$place" go install -ldflags="-s -w" \
            "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT" || { echo "actionlint cannot be had."; return 0; }
    fi
    "$place/actionlint"
}
