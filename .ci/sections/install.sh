# shellcheck shell=bash
# The virtual environment, and Orcas in it. Sourced by .ci/run.

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Orcas needs Python 3.11 or later on the PATH." >&2
    return 1
}

# Processes for the Python tests: two more than processors, because tests often wait, but at most four, because more
# starve the servers under test.
workers() {
    local processors
    processors="$(nproc 2>/dev/null || echo 2)"
    echo $((processors < 3 ? processors + 2 : 4))
}

# install EXTRAS PROFILE [CONSTRAINTS]: installs the package from this checkout in a virtual environment, by pip, as users
# do. What the extras need comes from uv, which takes 5 seconds where pip takes 60. constraints.txt pins the tools of
# tests and benchmarks; updating one is a separate change.
install() {
    local package=(--verbose) extra extras=()
    if [ ! -x "$BIN/python" ]; then
        header "virtual environment"
        "$(find_python)" -m venv "$VENV"
    fi
    header "install orcas-s3${1:+[$1]} (cargo profile $2; Rust takes minutes to compile the first time)"
    if [ -n "$1" ]; then
        for extra in ${1//,/ }; do
            extras+=(--extra "$extra")
        done
        "$BIN/python" -m pip install --quiet --constraint .ci/constraints.txt uv
        "$BIN/uv" pip install --quiet --python "$BIN/python" --constraint .ci/floors.txt \
            --constraint "${3:-.ci/constraints.txt}" --requirement pyproject.toml "${extras[@]}"
        package+=(--no-deps)
    fi
    MATURIN_PEP517_ARGS="--profile $2 --locked" watched "$BIN/python" -m pip install "${package[@]}" \
        --constraint .ci/floors.txt .
    "$BIN/orcas" version
}

# watched COMMAND…: runs it with its output in target/install.log, and shows how long it has run and what pip or cargo
# does at present: every second on a terminal, else every 15 seconds. A failure shows the whole output.
watched() {
    local log=target/install.log began=$SECONDS pid step last=0 status=0
    mkdir -p target
    # In its own process group, so that all its processes end with this run: a background process ignores Ctrl-C.
    set -m
    "$@" </dev/null >"$log" 2>&1 &
    pid=$!
    set +m
    trap 'kill -- "-$pid" 2>/dev/null; exit 130' HUP INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        step="$(grep -E '^ *(Compiling|Downloading|Collecting|Finished|Installing) ' "$log" | tail -n 1 | cut -c1-60)" || true
        step="$(printf '%d:%02d  %s' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) "${step:-…}")"
        if [ -t 1 ]; then
            printf '\r\033[K%s' "$step"
        elif [ $((SECONDS - last)) -ge 15 ]; then
            last=$SECONDS
            echo "$step"
        fi
    done
    trap - HUP INT TERM
    [ ! -t 1 ] || printf '\r\033[K'
    wait "$pid" || status=$?
    [ "$status" -eq 0 ] || cat "$log" >&2
    return "$status"
}

# Installs once in a run, for all sections. Only the full run executes notebooks.
ensure() {
    if [ -z "$INSTALLED" ]; then
        install "test,lint${FULL:+,notebooks}" "$PROFILE"
        INSTALLED=yes
    fi
}
