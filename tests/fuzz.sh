#!/usr/bin/env bash
# Runs every fuzz target of the tree for a while, two at a time, and prints a line
# for each: executions and inputs found. Inputs that fail are written by the engine
# to testdata/fuzz beside the target, as a test from then on.
#
#   tests/fuzz.sh TIME OUT [TARGET]   TIME a target, for instance 10s; test binaries,
#                                     logs and the corpus that grew lie in OUT;
#                                     TARGET a regular expression of names, which
#                                     are unique in the tree
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
time=$1 out=$(realpath -m "$2") want=${3:-.}
mkdir -p "$out/cache"

# One instrumented test binary for each package with targets.
jobs=()
for package in $(git grep --untracked -lE '^func Fuzz[A-Za-z]+\(f \*testing\.F\)' -- '*_test.go' | xargs -n1 dirname | sort -u); do
  binary=$out/$(tr / - <<<"$package").test
  go test -c -fuzz=Fuzz -o "$binary" "./$package" || exit 1
  for target in $(cd "$package" && "$binary" -test.list '^Fuzz' | grep -E "$want"); do
    jobs+=("$package $target $binary")
  done
done
[ ${#jobs[@]} -gt 0 ] || { echo "tests/fuzz.sh: no target is called $want" >&2; exit 1; }

one() { # one PACKAGE TARGET BINARY
  local log=$out/$2.log last
  (cd "$1" && "$3" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$time" -test.parallel 1 -test.fuzzminimizetime 100x -test.fuzzcachedir "$out/cache") >"$log" 2>&1
  local status=$?
  last=$(grep -oE 'execs: [0-9]+ .*' "$log" | tail -1)
  if [ $status = 0 ]; then
    echo "ok    $1 $2: $last"
  else
    echo "FAIL  $1 $2: $last"
    sed 's/^/      /' "$log" | tail -40
  fi
  return $status
}
export -f one
export out time GOMAXPROCS=1 # two targets, two processors

printf '%s\n' "${jobs[@]}" | xargs -P 2 -L 1 bash -c 'one "$@"' _
