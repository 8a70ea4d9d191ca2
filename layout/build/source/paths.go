package source

// What readers ask of paths.

import (
	"os"
	"strings"
)

// QuoteGlob escapes what Glob would take for a pattern.
func QuoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Exists reports whether there is something at path that can be looked at.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
