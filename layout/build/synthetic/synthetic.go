// Package synthetic makes graphs of any size for tests and measurements, as
// streams: every edge, feature, label and split id is a pure function of the
// seed and its own index, so that nothing is kept, every scan repeats exactly,
// and the number of threads changes nothing.
//
// # Kinds
//
// "rmat" is the recursive matrix of Chakrabarti, Zhan and Faloutsos (SDM 2004)
// with the Graph500 parameters a, b, c, d = 0.57, 0.19, 0.19, 0.05, quantised to
// 1/65536: a power law with hubs. Source and target are drawn together, level by
// level; where the number of nodes is no power of two, an edge outside is drawn
// again. Duplicate edges and self-loops are kept. Labels are random and have
// nothing to do with the edges; features carry a weak signal of the label.
//
// "community" plants communities that are the classes. Each class is made of
// groups of about 1024 nodes; of a node's in-edges 60 % come from its own group,
// 25 % from its class, and 15 % from anywhere. Within a group, degrees are mildly
// skewed: the density over the group is proportional to p^(-1/3), from 2/3 of the
// average to about ten times. There are no self-loops in groups of two and more
// nodes, and duplicate edges are kept. A node's features are the mean vector of
// its community, scaled down, plus unit noise: the scale is solved for the class
// to be told from a node's own features half of the time (60 % with two classes),
// while the mean over neighbours reveals it. A twentieth of the labels is drawn at
// random, so that nothing predicts them all.
//
// # Order of ids
//
// Node ids are shuffled by a keyed permutation, a formula without a table: ids
// that are close say nothing about nodes. Splits are a tenth of the nodes for
// "train", a twentieth for "val" and a tenth for "test", disjoint, in a keyed
// random order.
//
// # Limits
//
// Less than 2^32-1 nodes, at most 2^40 edges, 2^16 features, 2^16 classes, and
// classes times features at most 2^26 (their mean vectors are kept). The streams
// are part of what users measure against: a change of them is a change of format
// and is caught by a test of known answers.
package synthetic

import (
	"fmt"
	"math"
	"runtime"

	"github.com/goagnes/goagnes/layout"
	"github.com/goagnes/goagnes/layout/build/source"
)

// The kinds of graphs.
const (
	RMAT      = "rmat"
	Community = "community"
)

// Limits and defaults of Options.
const (
	maxNodes    = 1<<32 - 2
	maxEdges    = 1 << 40
	maxFeatures = 1 << 16
	maxClasses  = 1 << 16
	maxMeans    = 1 << 26

	defaultDegree   = 16
	defaultFeatures = 64
	defaultClasses  = 16
)

// Options describe a graph.
type Options struct {
	// Kind is RMAT or Community.
	Kind string
	// NumNodes is the number of nodes, at least 1.
	NumNodes int64
	// AvgDegree is the number of edges a node; default 16, negative for no edges.
	AvgDegree float64
	// NumFeatures is the width of x; default 64, negative for no x.
	NumFeatures int64
	// NumClasses is the number of classes of y; default 16 (or the number of nodes
	// where that is less), negative for no y, which "community" does not offer.
	NumClasses int64
	// FeatureDType is layout.Float32, the default, or layout.Float16.
	FeatureDType layout.DType
	// Seed selects the graph.
	Seed uint64
	// Threads bounds the threads of one scan; default the processors, at most 2.
	Threads int
}

// OptionError is an option out of range.
type OptionError struct {
	// Option is the field of Options, in the form that flags and Python arguments have.
	Option string
	// Msg says what is allowed.
	Msg string
}

// Error names the option and what is allowed.
func (e *OptionError) Error() string { return e.Option + ": " + e.Msg }

// Class returns "usage".
func (e *OptionError) Class() string { return "usage" }

func refuse(option, format string, args ...any) error {
	return &OptionError{option, fmt.Sprintf(format, args...)}
}

// graph is a set of resolved options.
type graph struct {
	Options
	edges  int64
	ids    permutation // from the order inside to node ids
	labels uint64      // key of the labels' stream
}

// Streams of one seed; the numbers are part of the output.
const (
	streamIDs = 1 + iota
	streamSplits
	streamEdges
	streamLabels
	streamMeans
	streamNoise
)

// New returns the graph as a dataset: edges, x, y, and splits train, val, test.
// Errors are of type *OptionError.
func New(o Options) (*source.Dataset, error) {
	g, err := resolve(o)
	if err != nil {
		return nil, err
	}
	d := &source.Dataset{
		Format:   g.Kind,
		NumNodes: g.NumNodes,
		Arrays:   map[string]source.Rows{},
		Splits:   map[string]source.Rows{},
	}
	if g.Kind == RMAT {
		d.Edges = newRMAT(g)
	} else {
		d.Edges = newCommunity(g)
	}
	if g.NumFeatures > 0 {
		d.Arrays["x"] = newFeatures(g)
	}
	if g.NumClasses > 0 {
		d.Arrays["y"] = newLabels(g)
	}
	order := newPermutation(g.NumNodes, stream(g.Seed, streamSplits))
	first := int64(0)
	for _, s := range []struct {
		name string
		size int64
	}{{"train", g.NumNodes / 10}, {"val", g.NumNodes / 20}, {"test", g.NumNodes / 10}} {
		size := s.size
		if g.NumNodes >= 3 {
			size = max(size, 1)
		}
		d.Splits[s.name] = newSplit(g, s.name, order, first, size)
		first += size
	}
	return d, nil
}

func resolve(o Options) (*graph, error) {
	g := &graph{Options: o}
	if o.Kind != RMAT && o.Kind != Community {
		return nil, refuse("kind", "%q is neither %q nor %q", o.Kind, RMAT, Community)
	}
	if o.NumNodes < 1 || o.NumNodes > maxNodes {
		return nil, refuse("num_nodes", "%d is not from 1 to %d", o.NumNodes, int64(maxNodes))
	}
	switch {
	case math.IsNaN(o.AvgDegree):
		return nil, refuse("avg_degree", "not a number")
	case o.AvgDegree == 0:
		g.AvgDegree = defaultDegree
	case o.AvgDegree < 0:
		g.AvgDegree = 0
	}
	edges := math.Round(g.AvgDegree * float64(g.NumNodes))
	if edges > maxEdges {
		return nil, refuse("avg_degree", "%v times %d nodes is more than %d edges", o.AvgDegree, o.NumNodes, int64(maxEdges))
	}
	g.edges = int64(edges)
	switch {
	case o.NumFeatures == 0:
		g.NumFeatures = defaultFeatures
	case o.NumFeatures < 0:
		g.NumFeatures = 0
	case o.NumFeatures > maxFeatures:
		return nil, refuse("num_features", "%d is more than %d", o.NumFeatures, maxFeatures)
	}
	switch {
	case o.NumClasses == 0:
		g.NumClasses = min(defaultClasses, g.NumNodes)
	case o.NumClasses < 0 && o.Kind == Community:
		return nil, refuse("num_classes", "a %q graph has at least 1 class", Community)
	case o.NumClasses < 0:
		g.NumClasses = 0
	case o.NumClasses > min(maxClasses, g.NumNodes):
		return nil, refuse("num_classes", "%d is more than %d", o.NumClasses, min(maxClasses, g.NumNodes))
	}
	if g.NumClasses*g.NumFeatures > maxMeans {
		return nil, refuse("num_features", "%d features times %d classes is more than %d", g.NumFeatures, g.NumClasses, maxMeans)
	}
	switch o.FeatureDType {
	case 0:
		g.FeatureDType = layout.Float32
	case layout.Float32, layout.Float16:
	default:
		return nil, refuse("feature_dtype", "%s is neither float32 nor float16", o.FeatureDType)
	}
	if o.Threads <= 0 {
		g.Threads = min(2, runtime.GOMAXPROCS(0))
	}
	g.ids = newPermutation(g.NumNodes, stream(g.Seed, streamIDs))
	g.labels = stream(g.Seed, streamLabels)
	return g, nil
}

// name is what messages call a part of the graph.
func (g *graph) name(part string) string {
	return fmt.Sprintf("%s graph of seed %d: %s", g.Kind, g.Seed, part)
}
