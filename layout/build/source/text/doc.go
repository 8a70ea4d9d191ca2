// Package text reads edges from lines of text: lists of two ids a line, pairs of
// vertex and edge files, Matrix Market files; plain or compressed.
//
// A fault names file and line. Files stream in blocks of whole lines, so that memory is
// two blocks of source.MaxLineBytes, which bounds a line too.
package text
