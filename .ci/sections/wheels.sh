# shellcheck shell=bash
# What is published: the source distribution and the wheels. Sourced by .ci/run.

# Builds the source distribution, and from it, as pip would, a wheel for each target, into dist. Two builds of a commit have
# the same extension: times are those of the commit, and no path of this machine is in it.
wheels() {
    local VENV=target/wheels/venv BIN=target/wheels/venv/bin source=target/wheels/source targets target zig=()
    local -x SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
    # Where maturin looks for zig.
    local -x PATH="$PWD/$BIN:$PATH"
    local -x RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/orcas"
    header "tools for wheels"
    [ -x "$BIN/python" ] || "$(find_python)" -m venv "$VENV"
    "$BIN/python" -m pip install --quiet --constraint .ci/constraints.txt abi3audit auditwheel maturin twine uv ziglang
    if [ "$(uname)" = Linux ]; then
        zig=(--zig)
        targets="{x86_64,aarch64}-unknown-linux-{gnu,musl}"
    else
        targets="{x86_64,aarch64}-apple-darwin"
    fi
    targets="$(eval "echo $targets")"
    if [ -n "$FULL" ]; then
        targets="$(rust_host)"
    fi
    header "source distribution"
    rm -rf dist "$source"
    mkdir -p "$source"
    "$BIN/maturin" sdist --out dist 2>target/wheels/sdist.log || { cat target/wheels/sdist.log >&2; return 1; }
    tar -xzf dist/*.tar.gz -C "$source" --strip-components 1
    # Nothing but files of the commit.
    if tar -tzf dist/*.tar.gz | sed 's#^[^/]*/##' | sort | comm -13 <(git ls-files | sort) - | grep -vx PKG-INFO; then
        echo "These files of the source distribution are not in the commit." >&2
        return 1
    fi
    # Its workspace has no fuzz targets, so its lock file gets shorter. It must not change otherwise.
    cargo metadata --quiet --manifest-path "$source/Cargo.toml" --format-version 1 >target/wheels/metadata.json
    if diff Cargo.lock "$source/Cargo.lock" | grep '^>'; then
        echo "The source distribution does not build what Cargo.lock names." >&2
        return 1
    fi
    for target in ${TARGETS:-$targets}; do
        header "wheel for $target"
        if command -v rustup >/dev/null && ! rustup target add "$target"; then
            echo "wheels: none for $target, whose standard library could not be had; .github/workflows/wheels.yml builds it" |
                tee -a "$SKIPPED"
            [ -z "${CI:-}" ] || return 1
            continue
        fi
        CARGO_TARGET_DIR="$PWD/target" "$BIN/maturin" build --quiet --locked --profile dist --target "$target" "${zig[@]}" \
            --compatibility "$(compatibility "$target")" --out dist --manifest-path "$source/rust_core/Cargo.toml"
    done
    header "checks"
    "$BIN/twine" check --strict dist/*
    "$BIN/abi3audit" --strict dist/*.whl
    # That nothing in them needs a later glibc. What musl has, auditwheel sees only on a system with musl.
    for target in dist/*-manylinux*.whl; do
        [ ! -e "$target" ] || "$BIN/auditwheel" show "$target" | tr '\n' ' ' | grep -o 'is consistent .* tag: "manylinux_2_17_[a-z0-9_]*"'
    done
    ls -l dist
    try_wheels
}

# The oldest systems that a wheel is for. zig compiles for any version of glibc.
compatibility() {
    case "$1" in
    *-gnu) echo manylinux2014 ;;
    *-musl) echo musllinux_1_2 ;;
    *) echo pypi ;;
    esac
}

# Installs the wheel in dist that is for this machine, with the newest and with the oldest packages that it allows, and lets
# a server answer requests whose answers are compared byte by byte.
try_wheels() {
    local resolution place=target/wheels/tried
    for resolution in highest lowest-direct; do
        header "the wheel with the packages of --resolution $resolution"
        rm -rf "$place"
        mkdir -p "$place"
        "$(find_python)" -m venv "$place/venv"
        "$place/venv/bin/python" -m pip install --quiet --constraint .ci/constraints.txt uv
        "$place/venv/bin/python" -m pip download --quiet --no-deps --no-index --find-links dist --dest "$place" orcas-s3
        "$place/venv/bin/uv" pip install --quiet --python "$place/venv/bin/python" --resolution "$resolution" \
            --constraint .ci/floors.txt --requirement pyproject.toml "$place"/*.whl
        "$place/venv/bin/orcas" version --json
        "$place/venv/bin/orcas" bench --count 50 --data "$place" --json >"$place/bench.json"
    done
}
