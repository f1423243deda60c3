#!/bin/bash
# console-assets.sh: fetch the console's scripts from npm at pinned versions, check them, and put them with their licences
# into src/weft/web/static/vendor. npm's `latest` of htmx.org is 4, so 2.0.11 is named.
set -euo pipefail
cd "$(dirname "$0")/.."
target=src/weft/web/static/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch PACKAGE VERSION SHA256 FILE NAME: FILE of the package's archive, whose SHA-256 is given, as NAME
fetch() {
    local archive
    archive=$(cd "$work" && npm pack --silent "$1@$2" | tail -1)
    echo "$3  $work/$archive" | sha256sum --check --quiet -
    mkdir -p "$work/$1" && tar xzf "$work/$archive" -C "$work/$1"
    install -m 644 "$work/$1/package/$4" "$target/$5.js"
    install -m 644 "$work/$1/package/LICENSE" "$target/$5.LICENSE.txt"
}
mkdir -p "$target"
fetch htmx.org 2.0.11 165a2655073e9e6e55e307a7c74e8ebcdb76afb7701f9c16cfd106a13add408e dist/htmx.min.js htmx-2.0.11
fetch htmx-ext-sse 2.2.4 90b46f5ab915ba2f64e6348448c8dba509277a47e15c125ffb65754eb4f6b5dc dist/sse.min.js htmx-ext-sse-2.2.4
(cd "$target" && sha256sum -- *.js *.LICENSE.txt >SHA256SUMS)
