#!/usr/bin/env bash
# Everything within a small budget: makes R-MAT with 2^22 nodes and 2^26 edges,
# once with 128 float32 and once with 256 float16 features, and builds, verifies,
# prepares, trains and exports it within an eighth, a sixteenth and a 32nd of D,
# the bytes of the features and 4 an edge; each step in a memory cgroup of its
# budget + 64 MiB where that can be had. Prints a line a step: verb, share, budget,
# peak resident memory, peak of the cgroup, seconds. Fails where a step does.
#
#   tests/scale/memory.sh DIR [--paper] [--only float32|float16] [--share 8|16|32] [--keep]
#
# DIR needs 14 GB on a file system with direct I/O. Raw arrays that are there
# already are not made again; all but them and the lines is removed unless --keep.
# SCALE=16 takes a graph of 2^16 nodes for a quick run; budgets are 48 MiB at least,
# below which fixed parts rule.
#
# --paper does the hardest ratio of the paper's Table 2 instead, 5.7 bytes a node
# for everything: 64 million nodes, 300 million edges, 16 float16 features, built,
# verified and an epoch of 1 % of the nodes prepared within 365 MB, program and all.
# DIR then needs 16 GB. NODES=1000000 makes it smaller, in proportion.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 DIR [--paper] [--only float32|float16] [--share 8|16|32] [--keep]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
(cd "$here/../.." && go build -o "$dir/goagnes" ./goagnes/cmd/goagnes)
exec python3 "$here/memory.py" "$dir" "$@"
