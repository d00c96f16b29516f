# shellcheck shell=bash
# Sections that produce figures. Sourced by .ci/run.

# A short pass of the benchmarks.
bench_short() {
    ensure
    header "short pass of the benchmarks: that they run, not how fast"
    mkdir -p "$FIGURES"
    rm -f "$FIGURES/figures.json" "$FIGURES/micro.json"
    "$BIN/python" benchmarks/run.py --quick --only cpu --only get-10mib --only ready \
        --cargo-profile "$PROFILE" --json "$FIGURES/figures.json"
    "$BIN/python" -m pytest --quiet benchmarks/micro --cargo-profile "$PROFILE" --benchmark-quiet \
        --benchmark-json "$FIGURES/micro.json"
    "$BIN/python" benchmarks/complete.py "$PROFILE" "$FIGURES/figures.json" "$FIGURES/micro.json"
}

# Instructions of hot paths against benchmarks/instructions.toml.
instructions() {
    header "instructions of hot paths"
    # Neither pip nor cargo can install valgrind, so without it only an explicit request for this section fails.
    if [ -n "$FULL" ] && ! command -v valgrind >/dev/null; then
        echo "Skipped: valgrind is not installed, so no instructions were counted."
        echo "instructions: skipped, there is no valgrind" >>"$SKIPPED"
        return
    fi
    ensure
    "$BIN/python" benchmarks/instructions.py --json "$FIGURES/instructions.json"
}

# A short comparison of the working tree with another commit.
compare_short() {
    ensure
    header "another commit beside the working tree: that both run, not which is cheaper"
    rm -f "$FIGURES/compare.json"
    local status=0
    "$BIN/python" benchmarks/compare.py ${BASE:+"$BASE"} --installed --cargo-profile "$PROFILE" \
        --only servers --quick --rounds 3 --json "$FIGURES/compare.json" || status=$?
    # A shallow clone has no other commit to compare with.
    if [ "$status" -eq 3 ] && [ -n "$FULL" ]; then
        echo "compare-short: skipped, there is no commit to compare with" >>"$SKIPPED"
        return
    fi
    [ "$status" -eq 0 ] || return "$status"
    "$BIN/python" benchmarks/complete.py "$PROFILE" "$FIGURES/compare.json"
}
