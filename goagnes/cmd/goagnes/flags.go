// Flags: the standard package, with positions anywhere, typed values, and the
// rule that a bad flag is a usage error naming the verb.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
)

// usageError is a mistake in the command line; it ends with status 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Class names the kind of failure, as the engine's errors do.
func (e *usageError) Class() string { return "usage" }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// given reports whether a flag was on the command line.
func given(set *flag.FlagSet, name string) bool {
	found := false
	set.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// sizeValue is a flag holding bytes.
type sizeValue struct{ bytes *int64 }

func (v sizeValue) Set(text string) (err error) { *v.bytes, err = parseSize(text); return err }
func (v sizeValue) String() string {
	if v.bytes == nil || *v.bytes == 0 {
		return ""
	}
	return formatSize(*v.bytes)
}

// countValue is a flag holding a number of things, at least 1.
type countValue struct{ n *int }

func (v countValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a whole number from 1", text)
	}
	*v.n = n
	return nil
}

func (v countValue) String() string {
	if v.n == nil || *v.n == 0 {
		return ""
	}
	return strconv.Itoa(*v.n)
}

// intsValue is a flag holding integers separated by commas.
type intsValue struct{ list *[]int }

func (v intsValue) Set(text string) error {
	list := []int{}
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is not an integer: write for example 10,10,10", part)
		}
		list = append(list, n)
	}
	*v.list = list
	return nil
}

func (v intsValue) String() string {
	if v.list == nil {
		return ""
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(*v.list)), ","), "[]")
}

// foldersValue is a flag holding folders separated by commas.
type foldersValue struct{ list *[]string }

func (v foldersValue) Set(text string) error {
	list := strings.Split(text, ",")
	for _, folder := range list {
		if folder == "" {
			return fmt.Errorf("%q names an empty folder: write for example /ssd1,/ssd2", text)
		}
	}
	*v.list = list
	return nil
}

func (v foldersValue) String() string {
	if v.list == nil {
		return ""
	}
	return strings.Join(*v.list, ",")
}

// namesValue is a repeatable flag NAME=FILE.
type namesValue struct{ files map[string]string }

func (v namesValue) Set(text string) error {
	name, file, ok := strings.Cut(text, "=")
	if !ok || name == "" || file == "" {
		return fmt.Errorf("%q is not NAME=FILE", text)
	}
	if _, twice := v.files[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	v.files[name] = file
	return nil
}

func (v namesValue) String() string {
	list := make([]string, 0, len(v.files))
	for name, file := range v.files {
		list = append(list, name+"="+file)
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}

// seedValue is a flag holding an optional 64-bit seed.
type seedValue struct{ seed **uint64 }

func (v seedValue) Set(text string) error {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return fmt.Errorf("%q is not a seed: a whole number from 0 to 2^64-1", text)
	}
	*v.seed = &n
	return nil
}

func (v seedValue) String() string {
	if v.seed == nil || *v.seed == nil {
		return ""
	}
	return strconv.FormatUint(**v.seed, 10)
}

// flagSet returns an empty set that prints nothing by itself.
func flagSet(verb string) *flag.FlagSet {
	set := flag.NewFlagSet(verb, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return set
}

// parse reads flags and positions in any order and checks how many positions
// there are; one named in brackets may be left out. After "--" everything is a
// position.
func parse(set *flag.FlagSet, args, positions []string) ([]string, error) {
	var found []string
	for {
		if err := set.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, usagef("%s: %s (see goagnes help %s)", set.Name(), dashed(err.Error()), set.Name())
		}
		rest := set.Args()
		if len(rest) == 0 {
			break
		}
		if consumed := len(args) - len(rest); consumed > 0 && args[consumed-1] == "--" {
			found = append(found, rest...)
			break
		}
		found, args = append(found, rest[0]), rest[1:]
	}
	if len(found) < len(positions) && positions[len(found)][0] != '[' {
		return nil, usagef("%s: %s is missing (see goagnes help %s)", set.Name(), positions[len(found)], set.Name())
	}
	if len(found) > len(positions) {
		return nil, usagef("%s: %q is one argument too many (see goagnes help %s)", set.Name(), found[len(positions)], set.Name())
	}
	return found, nil
}

// dashed writes the flag that a message of package flag names as everything else
// here does: with two dashes.
func dashed(message string) string {
	for _, before := range []string{"for flag -", "not defined: -", "needs an argument: -"} {
		message = strings.Replace(message, before, before+"-", 1)
	}
	return message
}

// describe writes the flags of a verb, two columns, for its help text.
func describe(w io.Writer, set *flag.FlagSet) {
	var rows [][2]string
	width := 0
	set.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		left := "--" + f.Name
		if value != "" {
			left += " " + value
		}
		if def := f.DefValue; def != "" && def != "false" && def != "0" {
			usage += " (default " + def + ")"
		}
		rows = append(rows, [2]string{left, usage})
		width = max(width, len(left))
	})
	for _, row := range rows {
		fmt.Fprintf(w, "  %-*s  %s\n", width, row[0], row[1])
	}
}
