package archive

// Kinds of .npz archives, told by the names of their members. One table, so that
// two kinds that could be meant by one archive are seen.

import (
	"slices"
	"strings"
)

// npzKind is a kind of archive.
type npzKind struct {
	format string
	// members must all be there; of each alternative "a|b" one.
	members []string
}

// npzKinds lists the kinds, the most particular first: an archive is of the first
// whose members it has. An archive of no kind is for "npz" to judge.
var npzKinds = []npzKind{
	{"scipy", []string{"format", "shape", "data", "indptr|row|offsets"}},
	{"heterophilous", []string{"edges", "node_features", "node_labels", "train_masks", "val_masks", "test_masks"}},
	{"gnn", []string{"adj_data", "adj_indices", "adj_indptr", "adj_shape"}},
	{"npz", []string{"edge_index|edges"}},
}

func (k *npzKind) matches(names []string) bool {
	for _, m := range k.members {
		if !slices.ContainsFunc(strings.Split(m, "|"), func(n string) bool { return slices.Contains(names, n) }) {
			return false
		}
	}
	return true
}

// Detect names the format of an archive.
func Detect(path string) (string, error) {
	m, err := List(path)
	if err != nil {
		return "", err
	}
	for _, k := range npzKinds {
		if k.matches(m.Names) {
			return k.format, nil
		}
	}
	return "npz", nil
}
