// Package staging grows a store beside its final name: sections under construction,
// the seal of checksums, build id and manifest, stripe directories, and the one rename
// that puts it in place.
//
// # Invariants
//
//   - Nothing half-written has the name of a store: the manifest comes last, every file
//     is synced, and the directory is renamed when it is whole.
//   - A directory under construction is locked; those whose lock is free were left by
//     killed builds and are removed by the next build of that name.
//   - A store that is replaced stays readable until the exchange; what of it cannot be
//     removed is told.
//   - The order in which sections are written does not show in the store.
package staging
