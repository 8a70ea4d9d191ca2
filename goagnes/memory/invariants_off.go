//go:build !invariants

package memory

// invariants turns on poisoning and the checks that are too slow to be always on.
const invariants = false
