// The table of verbs, and the flags that several verbs share.
package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goagnes/goagnes/goagnes"
)

// commands are the verbs in the order of the help text.
var commands = []command{
	generateCommand,
	buildCommand,
	importCommand,
	infoCommand,
	verifyCommand,
	explainCommand,
	trainCommand,
	predictCommand,
	exportCommand,
	benchCommand,
	reportCommand,
}

// openFlags declares what opening a store takes.
func openFlags(set *flag.FlagSet) *goagnes.OpenOptions {
	o := &goagnes.OpenOptions{}
	set.Var(sizeValue{&o.Memory}, "memory", "bound `size` of all memory, default 2GiB")
	set.Var(countValue{&o.NumThreads}, "num-threads", "worker threads `n`, default one per processor")
	set.StringVar(&o.Scratch, "scratch", "", "`folder` for what does not fit in memory, default beside the store")
	set.Var(sizeValue{&o.ScratchLimit}, "scratch-limit", "bound `size` of scratch files, default half the free space")
	ioFlag(set, &o.IO)
	stripesFlag(set, &o.Stripes)
	return o
}

// ioFlag declares the way to the device.
func ioFlag(set *flag.FlagSet, to *string) {
	set.StringVar(to, "io", "auto", "`name` of the way to the device: auto, uring, pread, or buffered for the page cache")
}

// openStore opens a verb's store. That its files go through the page cache, or
// scratch elsewhere than beside it, where nobody asked for it is said once.
func openStore(call invocation, o goagnes.OpenOptions) (*goagnes.Store, error) {
	store, err := goagnes.Open(call.args[0], o)
	if err != nil {
		return nil, err
	}
	info := store.Info()
	warnPageCache(call, info.DirectRefused)
	if info.ScratchMoved != "" {
		call.warn(fmt.Sprintf("%s: what does not fit in memory goes to %s; --scratch names another folder", info.ScratchMoved, strings.Join(info.Scratch, ", ")))
	}
	return store, nil
}

// warnPageCache says once that files beside the one named, a store's or scratch, go
// through the page cache though nobody asked for it; no name: none does.
func warnPageCache(call invocation, file string) {
	if file != "" {
		call.warn(fmt.Sprintf("the file system of %s refuses direct I/O: its files go through the page cache, which --memory does not bound", filepath.Dir(file)))
	}
}

// stripesFlag declares where the stripe directories of an existing store lie.
func stripesFlag(set *flag.FlagSet, to *[]string) {
	set.Var(foldersValue{to}, "stripes", "`folders` NAME.stripe-… of the store where they lie now, in their order, separated by commas, default where they were made")
}
