// Package table reads edges from tables: csv files with a header or without, and
// Parquet files; and the csv files of numbers that OGB keeps its arrays in.
//
// The two columns of an edge list are found by name, or are the only two there are;
// where that is not certain the table is refused with the names that would do. Other
// columns are passed over, and named by a note.
//
// # Limits
//
// A line of csv has at most source.MaxLineBytes. Of a Parquet file the footer is held,
// and one page of each column at a time; both are bounded before they are read.
package table
