#!/usr/bin/env bash
# The paper's Figure 9 on R-MAT with 2^22 nodes, 2^26 edges and 128 float32
# features within 304 MB, an eighth of the data: Algorithm 1 as published against
# mode agnes-no, then its time over block sizes from 64 KiB to 4 MiB and over
# hyperbatches from 1 to 420 minibatches, as markdown tables.
#
#   tests/scale/figure9.sh DIR
#
# Stores are built from the arrays that run.sh makes in DIR, one a block size (3 GB
# each at full size), unless they are there. Runs without a hyperbatch or with one
# below 16 prepare the first 42 minibatches alone; the table marks and scales them.
# SCALE=16 makes a small graph; MEMORY is the budget in bytes.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/limited.sh"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
scale=${SCALE:-22}
mib=$((1 << 20))
memory=${MEMORY:-304000000}
build_memory=$((512 * mib))

(cd "$here/../.." && go build -o "$dir/goagnes" ./goagnes/cmd/goagnes)
raw=$dir/raw-$scale
[ -e "$raw/edge_index.npy" ] || "$dir/goagnes" generate --raw "$raw" --kind rmat --num-nodes $((1 << scale)) --avg-degree 16 --num-features 128
results=$dir/figure9-$scale
mkdir -p "$results"

# one NAME KIB MODE HYPERBATCH: one epoch, or the start of one, into NAME.json
one() {
  local store=$dir/figure9-store-$scale-$2 most=0
  if [ ! -e "$store/MANIFEST" ]; then
    "$dir/goagnes" build "$store" --edge-index "$raw/edge_index.npy" --x "$raw/x.npy" --y "$raw/y.npy" \
      --split train="$raw/split_train.npy" --block-size "$2KiB" --memory "$build_memory" --json >"$results/build-$2.json"
  fi
  if [ "$3" = agnes-no ] || [ "$4" -lt 16 ]; then most=42; fi
  limited $((memory + 64 * mib)) "$dir/goagnes" bench prepare "$store" --input-nodes train --shuffle --seed 0 --memory "$memory" \
    --num-neighbors 10,10,10 --batch-size 1000 --mode "$3" --hyperbatch-size "$4" --max-batches "$most" --json >"$results/$1.json"
}
one mode-agnes-no 1024 agnes-no 1
one mode-agnes-paper 1024 agnes-paper 420
for kib in 64 128 256 512 1024 2048 4096; do one "block-$kib" "$kib" agnes-paper 420; done
for h in 1 4 16 64 128 256 420; do one "hyperbatch-$h" 1024 agnes-paper "$h"; done
exec python3 "$here/figure9.py" "$results"
