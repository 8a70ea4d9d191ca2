// goagnes report: draw the document of a run as a page.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goagnes/goagnes/goagnes/report"
)

var reportCommand = command{
	name:      "report",
	positions: []string{"RUN.json"},
	summary:   "draw what a run printed with --json as an HTML page",
	prepare: func(set *flag.FlagSet) func(context.Context, invocation) (*result, error) {
		out := set.String("out", "", "`file` for the page, .html")
		return func(_ context.Context, call invocation) (*result, error) {
			if *out == "" {
				return nil, usagef("report: --out is missing: name the file for the page")
			}
			if err := writeReport(call.args[0], *out); err != nil {
				return nil, err
			}
			return &result{document: map[string]string{"out": *out}, text: func(w io.Writer) { fmt.Fprintln(w, *out) }}, nil
		}
	},
}

// writeReport writes the page beside its place and renames it there, so that a
// page that was there before is replaced whole or not at all.
func writeReport(run, out string) (err error) {
	in, err := os.Open(run)
	if err != nil {
		return &report.Error{Name: run, Msg: "cannot be read: " + errors.Unwrap(err).Error()}
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return &report.Error{Name: run, Msg: "a folder: give the file with what a verb prints with --json"}
	}
	defer func() {
		var fault *os.PathError
		var moved *os.LinkError
		if errors.As(err, &fault) { // of the file that is to be renamed, which nobody knows
			err = fmt.Errorf("%s: cannot be written: %w", out, fault.Err)
		} else if errors.As(err, &moved) {
			err = fmt.Errorf("%s: cannot be written: %w", out, moved.Err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(out), ".report-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriter(f)
	err = report.Write(w, run, in)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), out)
}
