#!/bin/bash
# overlap.sh [FOLDER]: how much of an epoch's waiting for a device of 20 ms latency
# is hidden behind its work, on R-MAT with 200,000 nodes, 3,200,000 edges and 128
# float32 under 24 and under 128 MiB. Under 3 minutes; 400 MB in FOLDER, by
# default a temporary one, removed at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/overlap.XXXXXX")
trap 'rm -rf "$work"' EXIT
go build -o "$work/goagnes" ./goagnes/cmd/goagnes
go build -o "$work/overlap" ./tests/scale/overlap
"$work/goagnes" generate "$work/store" --kind rmat --num-nodes 200000 --avg-degree 16 --num-features 128 --memory 512MiB >/dev/null 2>&1
for mib in 24 128; do
  echo "memory     $mib MiB"
  "$work/overlap" --memory $((mib << 20)) "$work/store"
done
