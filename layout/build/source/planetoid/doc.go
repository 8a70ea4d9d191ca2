// Package planetoid reads the raw files of the Planetoid graphs (Yang, Cohen and
// Salakhutdinov 2016): ind.NAME.x to ind.NAME.test.index, which are pickles.
//
// The pickles are read by package pickle, which executes nothing. Nodes, features,
// labels and splits are put together as torch_geometric.io.read_planetoid_data does.
// The graph is held in memory, so files above a fixed size are refused first.
package planetoid
