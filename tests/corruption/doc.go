// Package corruption holds tests only: no damage to a store is silent. Verification
// names every flipped bit, truncation, misplaced page and page of another build, in
// every region of every file; reads that touch damage end with an error that names it;
// no store that was made to harm does more; the build id is a hash of all of it.
package corruption
