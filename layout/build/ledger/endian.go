//go:build amd64 || arm64 || riscv64 || loong64 || ppc64le

package ledger

// Tables are written to the store as they lie in memory, which is right on
// little-endian machines only: elsewhere this file is left out and the package
// does not compile.
const littleEndian = true
