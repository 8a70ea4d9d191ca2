#!/usr/bin/env bash
# One graph far larger than its memory, end to end: makes R-MAT with 2^22 nodes,
# 2^26 edges and 128 float32 features as .npy, builds a store within 512 MiB,
# verifies it, prepares epochs of 420 minibatches within 288 MiB, an eighth of
# the data, and prints what each step took. Build and epochs run in memory
# cgroups of their budget + 64 MiB where that can be had.
#
#   tests/scale/run.sh DIR [EPOCHS]
#
# DIR needs 12 GB on a file system with direct I/O; what is there already is not
# made again. SCALE=18 makes a graph of 2^18 nodes instead, budgets in proportion.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 DIR [EPOCHS]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/limited.sh"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
epochs=${2:-1}
scale=${SCALE:-22}
nodes=$((1 << scale))
mib=$((1 << 20))
build_memory=$((512 * mib >> (22 - scale)))
memory=$((288 * mib >> (22 - scale)))
min=$((48 * mib)) # below it the fixed parts rule
[ "$build_memory" -ge "$min" ] || build_memory=$min
[ "$memory" -ge "$min" ] || memory=$min

(cd "$here/../.." && go build -o "$dir/goagnes" ./goagnes/cmd/goagnes)
raw=$dir/raw-$scale store=$dir/store-$scale
[ -e "$raw/edge_index.npy" ] || "$dir/goagnes" generate --raw "$raw" --kind rmat --num-nodes "$nodes" --avg-degree 16 --num-features 128
if [ ! -e "$store/MANIFEST" ]; then
  limited $((build_memory + 64 * mib)) "$dir/goagnes" build "$store" --edge-index "$raw/edge_index.npy" --x "$raw/x.npy" --y "$raw/y.npy" \
    --split train="$raw/split_train.npy" --memory "$build_memory" --json >"$dir/build.json"
fi
"$dir/goagnes" verify "$store" --json >"$dir/verify.json"
for kind in edge-ids no-edge-ids; do
  flags=(--input-nodes train --shuffle --seed 0 --memory "$memory" --epochs "$epochs" --num-neighbors 10,10,10 --batch-size 1000)
  [ $kind = edge-ids ] || flags+=(--no-edge-ids)
  limited $((memory + 64 * mib)) "$dir/goagnes" bench prepare "$store" "${flags[@]}" --json >"$dir/bench-$kind.json"
done
cached=unknown
if command -v fincore >/dev/null; then
  cached=$(fincore -b -n -o RES "$store"/* | awk '{s += $1} END {print s + 0}')
fi
exec python3 "$here/table.py" "$dir" "$cached"
