// Package inflate reads files that are compressed as a whole by gzip or zstd,
// recognised by content, as streams.
//
// A stream that is cut or damaged is an error that names the file; the checksums of
// both formats are compared. Concatenated members and frames are one stream, skippable
// frames are passed over. Memory is bounded: windows of zstd above MaxZstdWindow are
// refused before they are allocated.
package inflate
