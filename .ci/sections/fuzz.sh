# shellcheck shell=bash
# The fuzz targets under libFuzzer. Sourced by .ci/run.

FUZZ_OUT=target/fuzz

# fuzz_cargo COMMAND ARGUMENTS…: cargo for the fuzz targets, with the flags of cargo-fuzz that a stable compiler takes.
fuzz_cargo() {
    local command="$1" coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    shift
    coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    coverage+=" -Cllvm-args=-sanitizer-coverage-trace-compares --cfg=fuzzing"
    # With --target, build scripts are compiled without these flags.
    RUSTFLAGS="$coverage" CARGO_TARGET_DIR="$FUZZ_OUT" \
        cargo "$command" --quiet --locked --profile ci --package orcas_fuzz --target "$(rust_host)" "$@"
}

# Runs each target for its share of FUZZ_SECONDS, from the seeds in the tree and the findings of earlier runs.
fuzz() {
    local host each target binary status=0
    local targets=(${FUZZ_TARGETS:-$(ls "$FUZZ/corpus")})
    host="$(rust_host)"
    each=$((${FUZZ_SECONDS:-300} / ${#targets[@]}))
    mkdir -p "$FUZZ_OUT/findings"
    for target in "${targets[@]}"; do
        binary="$FUZZ_OUT/$host/ci/$target"
        mkdir -p "$FUZZ_OUT/corpus/$target"
        if "$binary" -seed="${FUZZ_SEED:-1}" -max_total_time=$((each > 0 ? each : 1)) -timeout=10 -rss_limit_mb=512 \
            -verbosity=0 -print_final_stats=1 -artifact_prefix="$FUZZ_OUT/findings/$target-" \
            "$FUZZ_OUT/corpus/$target" "$FUZZ/corpus/$target" >"$FUZZ_OUT/$target.log" 2>&1; then
            awk -v target="$target" '/executed_units/ { runs = $2 } /average_exec/ { rate = $2 } /peak_rss/ { rss = $2 }
                END { printf "%-10s %9d inputs, %7d a second, %4d MiB\n", target, runs, rate, rss }' "$FUZZ_OUT/$target.log"
        else
            status=1
            tail -n 60 "$FUZZ_OUT/$target.log"
            echo "$target failed. To repeat it: $binary $(ls -t "$FUZZ_OUT/findings/$target-"* 2>/dev/null | head -n 1)" >&2
        fi
    done
    return "$status"
}
