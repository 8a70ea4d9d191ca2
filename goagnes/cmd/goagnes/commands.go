// The table of verbs, and the flags that several verbs share.
package main

import (
	"flag"

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
	set.IntVar(&o.NumThreads, "num-threads", 0, "worker threads `n`, default one per processor")
	set.StringVar(&o.Scratch, "scratch", "", "`folder` for what does not fit in memory, default beside the store")
	set.Var(sizeValue{&o.ScratchLimit}, "scratch-limit", "bound `size` of scratch files, default half the free space")
	stripesFlag(set, &o.Stripes)
	return o
}

// stripesFlag declares where the stripe directories of an existing store lie.
func stripesFlag(set *flag.FlagSet, to *[]string) {
	set.Var(foldersValue{to}, "stripes", "`folders` NAME.stripe-… of the store where they lie now, in their order, separated by commas, default where they were made")
}
