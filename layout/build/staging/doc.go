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
//     removed is told. Where names cannot be exchanged it is moved away for a moment;
//     the next build of that name puts it back where this one is killed then.
//   - Stripe directories that are marked as whole are named by a manifest, of the store or
//     of a directory under construction, that was durable before them and goes after
//     them: what a killed build leaves is always found.
//   - A commit that has returned without an error outlives a loss of power.
//   - The order in which sections are written does not show in the store.
package staging
