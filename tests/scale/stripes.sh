#!/bin/bash
# stripes.sh [BANDWIDTH [WORK]]: what a store gains by being spread over several
# directories. One graph is made plain, over 2 and over 4 directories of this disk,
# and an epoch's rows are read with each directory held to BANDWIDTH a second
# (default 40MB), so that each stands for an SSD of its own. Prints MB/s while
# reads are at the devices, and of the epoch; ends with status 1 where 2 directories
# give less than 1.9 times the former, or 4 less than 3.6 times. Takes about a
# minute and 900 MB in WORK (default a temporary folder, which is removed).
set -euo pipefail
cd "$(dirname "$0")/../.."
bandwidth=${1:-40MB}
work=${2:-$(mktemp -d)}
[ $# -ge 2 ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/ssd{1,2,3,4}/{two,four}
go build -o "$work/goagnes" ./goagnes/cmd/goagnes

make() { # NAME [flags]
  "$work/goagnes" generate "$work/$1" --kind community --num-nodes 65536 --num-features 1024 --order original \
    --num-threads 2 --overwrite "${@:2}" >/dev/null 2>&1
}
measure() { # NAME; minibatches all of one hyperbatch, nothing written
  "$work/goagnes" bench prepare "$work/$1" --num-neighbors 10,5 --input-nodes train --batch-size 500 --shuffle --seed 1 \
    --num-threads 2 --memory 700MiB --inject-bandwidth "$bandwidth" --json 2>/dev/null >"$work/$1.json"
}
make plain
make striped2 --stripes "$work/ssd1/two,$work/ssd2/two"
make striped4 --stripes "$work/ssd1/four,$work/ssd2/four,$work/ssd3/four,$work/ssd4/four"
for name in plain striped2 striped4; do measure $name; done

python3 - "$work" <<'PY'
import json, sys

failed, plain = False, None
print(f"{'directories':>11} {'MB read':>8} {'MB/s at the devices':>20} {'times':>6} {'MB/s of the epoch':>18} {'times':>6}")
for name, directories, least in (("plain", 1, 1.0), ("striped2", 2, 1.9), ("striped4", 4, 3.6)):
    document = json.load(open(f"{sys.argv[1]}/{name}.json"))
    io, seconds = document["stats"]["io"], sum(e["seconds"] for e in document["epochs"])
    assert io["bytes_written"] == 0, "the measurement is of reads alone"
    at_devices, of_epoch = io["bytes_read"] / io["busy_seconds"] / 1e6, io["bytes_read"] / seconds / 1e6
    plain = plain or (at_devices, of_epoch)
    times = at_devices / plain[0]
    failed |= times < least
    print(f"{directories:>11} {io['bytes_read'] / 1e6:>8.0f} {at_devices:>20.1f} {times:>6.2f} {of_epoch:>18.1f} {of_epoch / plain[1]:>6.2f}")
sys.exit(failed)
PY
