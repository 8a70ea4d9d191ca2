#!/usr/bin/env bash
# One graph in three forms: the edges of R-MAT with 2^22 nodes and 2^26 edges as
# SNAP text, as gzip text and as .npy are imported within 512 MiB, each in a memory
# cgroup of that + 64 MiB where it can be had. The stores must be equal byte for
# byte but for the record of their source in MANIFEST; the time of the text is
# printed beside that of `zcat | wc -l`, which only reads it.
#
#   tests/scale/import.sh DIR
#
# The arrays are those that run.sh makes in DIR. SCALE=18 makes a smaller graph.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/limited.sh"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
scale=${SCALE:-22}
nodes=$((1 << scale))
mib=$((1 << 20))
memory=$((512 * mib >> (22 - scale)))
[ "$memory" -ge $((48 * mib)) ] || memory=$((48 * mib)) # below it the fixed parts rule

(cd "$here/../.." && go build -o "$dir/goagnes" ./goagnes/cmd/goagnes)
raw=$dir/raw-$scale text=$dir/rmat-$scale.txt
[ -e "$raw/edge_index.npy" ] || "$dir/goagnes" generate --raw "$raw" --kind rmat --num-nodes "$nodes" --avg-degree 16 --num-features 128
[ -e "$text.gz" ] || { python3 "$here/to_text.py" "$raw/edge_index.npy" "$text.part" && gzip -1 -c "$text.part" >"$text.gz.part" && mv "$text.part" "$text" && mv "$text.gz.part" "$text.gz"; }

form() { # form NAME SOURCE
  rm -rf "$dir/import-$1"
  limited $((memory + 64 * mib)) "$dir/goagnes" import "$dir/import-$1" "$2" --num-nodes "$nodes" --ids dense --x "$raw/x.npy" \
    --memory "$memory" --json >"$dir/import-$1.json"
}
form text "$text"
form gzip "$text.gz"
form npy "$raw/edge_index.npy"
start=$(date +%s.%N)
lines=$(zcat "$text.gz" | wc -l)
end=$(date +%s.%N)
exec python3 "$here/import.py" "$dir" "$text" "$lines" "$(echo "$end - $start" | bc)"
