# shellcheck shell=bash
# Longer sections of cargo. Sourced by .ci/run.

rust_host() {
    rustc -vV | sed -n 's/^host: //p'
}

# Runs a suite that simulates disks. It opens hundreds of thousands of stores: with a larger cache of freed blocks, and
# without giving memory back to the kernel each time, glibc needs 30 % less CPU time for a store.
simulated() {
    local tunables=glibc.malloc.tcache_count=2000:glibc.malloc.trim_threshold=4294967296
    tunables+=:glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=67108864
    ORCAS_SHARE=$SHARE GLIBC_TUNABLES=$tunables cargo test --locked --profile "$PROFILE" --workspace "$@" -- --nocapture
}

# Runs each fuzz target once over its seeds and changed copies of them. That needs neither libFuzzer nor a build of its
# own: with `--workspace`, dependencies have the same features as in the other sections.
seeds() {
    local target
    cargo build --quiet --locked --profile "$PROFILE" --workspace --bins
    for target in $(ls "$FUZZ/corpus"); do
        printf '%-10s ' "$target"
        "target/$PROFILE/$target" "$FUZZ/corpus/$target"
    done
}

# Ctrl-C or SIGTERM ends the run after the seeds in progress. The test itself does not get the signal.
crash_long() {
    local stop status=0
    stop="$(mktemp -u)"
    cargo test --locked --profile "$PROFILE" --package orcas_core --test crash --no-run
    (
        trap '' INT TERM
        ORCAS_CRASH_STOP="$stop" exec cargo test --locked --profile "$PROFILE" --package orcas_core --test crash -- \
            --ignored --nocapture as_long_as_asked
    ) &
    trap 'touch "$stop"' INT TERM
    while kill -0 $! 2>/dev/null; do
        status=0
        wait $! || status=$?
    done
    trap - INT TERM
    rm -f "$stop"
    return "$status"
}

# Each deliberate defect, with the tests that must catch it.
planted() {
    ensure
    header "planted defects of the Python side"
    "$BIN/python" tests/planted/run.py
    header "planted defects"
    cargo test --locked --profile "$PROFILE" --package orcas_core --features planted --no-fail-fast \
        --test crash --test flips --test salvage -- --ignored --nocapture every_planted
    header "planted defects that only schedules show"
    local schedules=(--workspace --features orcas_engine/shuttle,orcas_core/planted --test races)
    cargo test --locked --profile "$PROFILE" "${schedules[@]}" --no-run
    # Each defect with the test that must catch it.
    local planted
    for planted in CondemnWithoutBarrier:whatever_the_schedule CondemnWithoutSecondLook:dies_twice \
        LocksOutOfOrder:versions_of_a_key OlderVersionShown:versions_of_a_key \
        ExpireWithoutCheck:versions_of_a_key OtherMarkerExpires:versions_of_a_key \
        NewerObjectHides:appends_and_snapshots AppendOnStaleLength:appends_and_snapshots \
        HitBeforeOverlay:a_merge_brings_back \
        AmendmentDroppedByMerge:a_merge_of_histories HistoryMergedNewestFirst:a_merge_of_histories; do
        if ORCAS_PLANTED=${planted%:*} cargo test --quiet --locked --profile "$PROFILE" "${schedules[@]}" -- \
            "${planted#*:}"; then
            echo "${planted%:*} is not caught" >&2
            return 1
        fi
    done
}
