// Command goagnes builds, checks and uses graph stores from the shell.
//
//	goagnes VERB STORE [SOURCE] [flags]
//
// It is thin glue over package goagnes/goagnes: flags carry the names of the
// Python arguments with dashes, sizes are written as 288MiB or 2GB, and
// --json prints one JSON document on standard output. Progress goes to
// standard error, as a bar on a terminal and as lines otherwise; so do errors,
// in one line that begins with "goagnes: " and names the file and what to do.
//
// Exit status: 0 done; 1 failed; 2 the command line or something not
// supported; 3 the store, the input or the budget was refused (also verify
// with findings); 130 interrupted. An interrupted build leaves nothing.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/goagnes/goagnes/goagnes"
)

// version is set by the linker; a program from go install knows its module's.
var version string

// Exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitInterrupted = 130
)

// result is what a verb hands back: a document for --json and a text for
// people. A result can carry a status of its own (verify with findings).
type result struct {
	document any
	text     func(w io.Writer)
	status   int
}

// command is one verb.
type command struct {
	name      string
	positions []string // names of the positional arguments, all required
	summary   string
	// prepare declares the flags and returns what runs once they are parsed.
	prepare func(set *flag.FlagSet) func(ctx context.Context, call invocation) (*result, error)
}

// invocation is one parsed command line.
type invocation struct {
	args     []string // positional arguments
	progress func(stage string, done, total int64)
	warn     func(text string) // prints a line on standard error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { // a second Ctrl-C ends the program at once
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr *os.File) (status int) {
	bar := newProgress(stderr)
	defer func() {
		if p := recover(); p != nil {
			bar.clear()
			fmt.Fprintf(stderr, "goagnes: internal error, please report it: %v\n%s", p, debug.Stack())
			status = exitFailed
		}
	}()
	status, err := dispatch(ctx, args, stdout, bar)
	bar.clear()
	if err == nil {
		return status
	}
	status = statusOf(ctx, err)
	if status == exitInterrupted {
		fmt.Fprintln(stderr, "goagnes: interrupted")
		return status
	}
	fmt.Fprintln(stderr, "goagnes: "+strings.Join(strings.Fields(err.Error()), " "))
	return status
}

// dispatch finds the verb, parses its flags, runs it and prints its result.
func dispatch(ctx context.Context, args []string, stdout io.Writer, bar *progress) (int, error) {
	if len(args) == 0 {
		return 0, usagef("no verb given; verbs: %s (see goagnes help)", verbNames())
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(stdout, args[1:])
	case "version", "-version", "--version":
		fmt.Fprintln(stdout, "goagnes "+versionText())
		return exitDone, nil
	}
	cmd, rest := find(args)
	if cmd == nil {
		return 0, usagef("no verb %q; verbs: %s (see goagnes help)", args[0], verbNames())
	}
	set := flagSet(cmd.name)
	asJSON := set.Bool("json", false, "print one JSON document on standard output")
	execute := cmd.prepare(set)
	positions, err := parse(set, rest, cmd.positions)
	if errors.Is(err, flag.ErrHelp) {
		return help(stdout, strings.Fields(cmd.name))
	}
	if err != nil {
		return 0, err
	}
	res, err := execute(ctx, invocation{args: positions, progress: bar.report, warn: bar.warn})
	if err != nil {
		return 0, err
	}
	bar.clear()
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return res.status, encoder.Encode(res.document)
	}
	text := bufio.NewWriter(stdout)
	res.text(text)
	return res.status, text.Flush()
}

// statusOf maps an error to the exit status.
func statusOf(ctx context.Context, err error) int {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	var own *usageError
	if errors.As(err, &own) {
		return exitUsage
	}
	switch goagnes.Class(err) {
	case "usage", "unsupported":
		return exitUsage
	case "store", "input", "budget":
		return exitRefused
	case "interrupted":
		return exitInterrupted
	}
	return exitFailed
}

// find returns the command that the arguments begin with, and what follows.
func find(args []string) (*command, []string) {
	for i := range commands {
		words := strings.Fields(commands[i].name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == commands[i].name {
			return &commands[i], args[len(words):]
		}
	}
	return nil, nil
}

func verbNames() string {
	names := make([]string, len(commands))
	for i := range commands {
		names[i] = commands[i].name
	}
	return strings.Join(names, ", ")
}

// help prints the list of verbs, or one verb with its flags.
func help(w io.Writer, args []string) (int, error) {
	if len(args) == 0 {
		fmt.Fprint(w, "goagnes VERB STORE [SOURCE] [flags]\n\nVerbs:\n")
		for i := range commands {
			fmt.Fprintf(w, "  %-14s %s\n", commands[i].name, commands[i].summary)
		}
		fmt.Fprint(w, "  version        print the version\n\ngoagnes help VERB lists a verb's flags. Exit status: 0 done, 1 failed, 2 usage,\n"+
			"3 store, input or budget refused, 130 interrupted.\n")
		return exitDone, nil
	}
	cmd, _ := find(args)
	if cmd == nil {
		return 0, usagef("no verb %q; verbs: %s", strings.Join(args, " "), verbNames())
	}
	set := flagSet(cmd.name)
	set.Bool("json", false, "print one JSON document on standard output")
	cmd.prepare(set)
	fmt.Fprintf(w, "goagnes %s %s [flags]\n\n%s\n\n", cmd.name, strings.Join(cmd.positions, " "), cmd.summary)
	describe(w, set)
	return exitDone, nil
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
