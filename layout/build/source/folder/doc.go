// Package folder reads datasets that are published as folders: the node property
// prediction graphs of OGB (Hu and others 2020), as csv files or as numpy archives, and
// the homogeneous graphs of IGB (Khatua and others 2023).
//
// They are read as their own loaders do, and what these drop or add is told by a note:
// the reverses that OGB adds, the splits by position of IGB. Everything streams; only
// the numbers of nodes and edges are read when a folder is opened.
package folder
