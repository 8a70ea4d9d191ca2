// Package formats opens inputs by the name of their format and tells formats apart by
// content: one table of all readers.
//
// Detection reads the first bytes of a file or lists a directory; it never goes by a
// name alone where the content says otherwise, and an input that may be of two formats
// is refused with both names. A format that is known and not read is refused by name.
package formats
