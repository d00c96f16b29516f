# shellcheck shell=bash
# The site of the documents. Sourced by .ci/run.

# The site of the documents, in target/site/VERSION. It needs packages but no part of Orcas, so nothing is compiled. Links between pages
# and to their sections must hold, and nothing may be loaded from elsewhere.
site() {
    local VENV=target/site-venv BIN=target/site-venv/bin built
    header "site"
    [ -x "$BIN/python" ] || "$(find_python)" -m venv "$VENV"
    "$BIN/python" -m pip install --quiet --constraint .ci/constraints.txt uv
    "$BIN/uv" pip install --quiet --python "$BIN/python" --constraint .ci/floors.txt --constraint .ci/constraints.txt \
        --requirement pyproject.toml --extra site
    built="$("$BIN/python" .ci/site.py target/site)"
    "$BIN/zensical" build --strict --config-file target/site/mkdocs.yml
    if grep -rlE '<(script|link|img|iframe)[^>]*(src|href)="?https?:' "$built" --include='*.html'; then
        echo "These pages load something from elsewhere." >&2
        return 1
    fi
    if [ -n "$FULL" ] && ! command -v node >/dev/null; then
        echo "site: its search was not asked, there is no Node.js" >>"$SKIPPED"
    else
        "$BIN/python" .ci/site_search.py "$built"
    fi
    echo "To read it: python3 -m http.server --directory $built"
}
