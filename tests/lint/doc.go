// Package lint holds no code, only tests: the house rules of this repository,
// each a sub-test whose failure says what to do instead.
//
//   - layering_test.go: which package may import which (arrows point down only);
//   - calls_test.go: calls that are banned, with their replacement;
//   - text_test.go: rules about files as text (markers, paths, length, names);
//   - tools_test.go: gofmt, go vet, staticcheck, ruff and mypy find nothing.
//
// The rules look at every file git tracks or would track, so a new file is
// covered before it is committed.
package lint
