// Package layout is the on-disk format of a store, and nothing else: pure
// functions over bytes. This comment is the specification of versions 1 and 2.
//
// # A store
//
// A store is a directory of files. Two have fixed names, MANIFEST and
// CHECKSUMS; every other file is one section, a named part of the store whose
// file name the manifest gives. All integers are little-endian. Every file is
// padded with zeros to whole pages of 4096 bytes, the unit of checksums and of
// direct I/O. A block, the unit in which sections are read, is a power of two
// from 4 KiB to 64 MiB, 1 MiB by default (paper, section 4.1).
//
// Nodes have two ids. The original id is the dense id 0..N-1 of the imported
// data, which is what people see. The internal id is the node's place in the
// store's node order, chosen so that nodes used together lie together. Edges
// are identified by their place in the imported list, the edge id, and stored
// by their target: position p counts the in-edges of internal node 0, then of
// node 1, and so on (CSC). The in-edges of a node keep the imported order, so
// that their edge ids ascend. Where edges were dropped or added at import, edge
// ids are places in the list so extended and have gaps (edge_ids of [Manifest]).
//
//	section           kind   contents
//	graph             graph  graph blocks
//	graph.index       index  object index table T_obj: an entry a block, one at the end
//	graph.place       array  uint64 page of graph at which each stored block begins, and one at the end; where blocks are compressed
//	edge.id           array  edge id by CSC position, uint32 (uint64 from 2^32 edge ids on)
//	edge.NAME         array  any other array of edges by CSC position
//	node.original     array  original id by internal id, uint32 or uint64; absent in order "original"
//	node.internal     array  internal id by original id, likewise
//	node.in_degree    array  in-edges from other nodes (loops left out) by internal id, uint32
//	node.x            array  features by internal id, float32 or float16
//	node.y            array  labels by internal id, an integer type, negative for none
//	node.NAME         array  any other array of nodes by internal id
//	split.NAME        array  int64 original ids of a split, in the given order
//	ids               array  int64 ids of the source by original id, ascending; only where they were ranked
//
// A section that is marked required and whose name or kind a reader does not
// know makes it refuse the store by that name. Sections that are not required
// and not known are passed over.
//
// # MANIFEST
//
//	page 0, the header
//	   0  [8]   magic "goagnes\n"
//	   8  u32   format version: the lowest that holds the store, 2 where edge ids have gaps, sections are striped
//	           or graph blocks are compressed, else 1
//	  12  u32   page size, 4096
//	  16  u64   bytes of the body
//	  24  [16]  build id
//	  40  u32   CRC32C of the body's pages
//	  44  u32   CRC32C of the source record's pages xor mask(salt of MANIFEST, 0), or 0: not known
//	  48        zeros
//	4092  u32   CRC32C of bytes 0..4091
//	pages 1.., the body: JSON of [Manifest], then zeros to a page
//	the rest, the source record
//	   0  u32   CRC32C of everything after this field
//	   4  u32   bytes of the record
//	   8        JSON for people: what the store was built from; then zeros to a page
//
// In version 2 the record at the end is {"source": the source record,
// "stripes": [directories]}.
//
// A reader checks the magic, the version, the checksums, the limits of
// [Manifest], then the sections, in this order, and gives each failure its own
// [Kind]. The source record is outside the body and the build id: two builds of
// one input from different files differ in it alone.
//
// The build id is the first 16 bytes of a SHA-256 over the body, taken with all
// root checksums zero, and the plain CRC32C of every page of every section.
// There is nothing random in a store: equal input and settings give equal bytes.
//
// # CHECKSUMS
//
// Every section has two tables here, at the offset that the manifest gives.
// The page table holds a u32 per page of the section. The root table holds a
// u32 per page of the page table, one for 4 MiB of data, so that it can be kept
// in memory; the manifest holds the CRC32C of the root table, so that
// everything is covered from the manifest. Both are padded to whole pages.
//
//	page table:  CRC32C(page) xor mask(salt of the section, page number)
//	root table:  CRC32C(page of the page table) xor mask(salt of the section's table, page number)
//
// The salt mixes the build id and the section's name ([NewSalt]): a page that
// is intact but lies in the wrong place, section or build is found out.
//
// # Graph blocks
//
// An object is a node and its in-edges. Objects stand in ascending internal id.
// A block holds whole objects; an object that would not fit into an empty block
// is a hub, split into pieces that fill a block each.
//
//	block of whole objects                     piece of a hub
//	   0  u8    kind, 1                           0  u8    kind, 2
//	   1  u8    bits w of a neighbour id          1  u8    bits w of a neighbour id
//	   2  u8    bytes of an original id, 4 or 8   2  u8    8
//	   3  u8    0                                 3  u8    0
//	   4  u32   objects n                         4  u32   1
//	   8  u64   internal id of the first          8  u64   internal id
//	  16  u64   CSC position of the first edge   16  u64   CSC position of the first edge here
//	  24  u32   edges in this block              24  u32   edges in this block
//	  28  u32   byte offset of the ids           28  u32   64
//	  32  u32   x n: end of each object,         32  u64   degree, over all pieces
//	            counted in ids                   40  u64   original id
//	      u32 or u64  x n: original ids          48        zeros
//	      zeros to a multiple of 8               64
//	      ids, then zeros, at least 8 bytes          ids, then zeros, at least 8 bytes
//
// Neighbour ids are internal ids of w = max(8, bits of N-1) bits each, id i in
// the bits i*w to i*w+w-1 of the id area, bit b being bit b mod 8 of byte b/8.
// All pieces of a hub but the last hold as many as fit ([HubCapacity]), so that
// neighbour number i is found without reading anything ([HubSlot]): k chosen
// neighbours of a hub cost k small reads.
//
// The object index table holds for each block, in 16 bytes, the internal id of
// its first object and the CSC position of its first edge; pieces of one hub
// have the same id. A last entry holds N and the number of edges. Block b
// holds the objects from its id up to, not including, that of block b+1.
//
// # Compressed graph blocks
//
// Where the settings name a compression ("zstd:LEVEL"), a block of whole objects is
// stored in as many pages as it takes compressed, and as it is where that would save
// no page. Pieces of hubs are stored as they are, so that chosen neighbours stay small
// reads. graph.place tells the pages: block b lies in pages place[b] to place[b+1],
// compressed if they are fewer than a block has. Checksums are those of the stored
// pages. A restored block is the block above, bit for bit.
//
//	compressed block
//	   0  u8    kind, 3
//	   1  u8    coding of the neighbour ids: 1 as they are, 2 differences
//	   2  u16   0
//	   4  u32   bytes of the frame
//	   8        one zstd frame (RFC 8878), then zeros to a page
//
// The frame holds columns. Each is cut into planes: of every value byte 0, the
// lowest, then of every value byte 1, and so on, which is what an entropy coder can
// use; ids packed to bits hide it.
//
//	degree of each object, 4 bytes
//	original id of each object as the difference to the one before, 4 or 8 bytes
//	neighbour ids in their order, ceil(w/8) bytes
//
// Differences are modulo 2^(8 bytes) and zigzag coded (0, -1, 1, -2, … become 0, 1, 2,
// 3, …); the first is to 0. Those of neighbour ids, coding 2, begin anew with every
// object. How many objects and edges there are, and so the size of the columns, is
// known from the object index table before anything is unpacked; a frame of another
// size is refused.
//
// # Arrays
//
// Rows lie at a fixed stride, the size of a row, without gaps; they may cross
// from one block into the next. A row belongs to the block that holds its first
// byte; a feature block is a block of node.x. See [Section.BlockRows].
//
// # Stripes
//
// The sections of a store may be spread over k stripe directories, each on an
// SSD of its own (paper, section 4.1). MANIFEST and CHECKSUMS stay in the
// store's directory. A section is cut into units of the manifest's stripe unit,
// a power of two not below the block size, so that a block lies in one place;
// unit u lies in directory (u + CRC32C of the file's name) mod k, in the
// section's file there, at u/k units from its beginning ([StripeAt]). What checksums cover, and the build
// id, are the sections' pages, wherever they lie; count and unit enter the build
// id, the directories' names do not. Each directory has a file STRIPE, one page:
//
//	   0  [8]   magic "gostripe"
//	   8  u32   which directory, from 0
//	  12  u32   directories k
//	  16  [16]  build id
//	  32        zeros
//	4092  u32   CRC32C of bytes 0..4091
//
// # Worked example
//
// Three nodes in the order 2, 0, 1: node 2 has the internal id 0, node 0 the
// internal id 1, node 1 the internal id 2. Node 2 has in-edges from nodes 0 and
// 1 (internal 1 and 2), node 0 none, node 1 two from node 2 and one from node 0
// (internal 0, 0 and 1). The graph section is one block. It begins
//
//	00  01 08 04 00 03 00 00 00 00 00 00 00 00 00 00 00
//	10  00 00 00 00 00 00 00 00 05 00 00 00 38 00 00 00
//	20  02 00 00 00 02 00 00 00 05 00 00 00 02 00 00 00
//	30  00 00 00 00 01 00 00 00 01 02 00 00 01 00 00 00
//
// and is zero from there on: kind 1, 8 bits, 4 bytes; 3 objects from internal
// id 0 and CSC position 0; 5 edges at byte 0x38; ends 2, 2, 5; original ids 2,
// 0, 1; ids 1 2 | | 0 0 1. The object index table is {0, 0}, {3, 5}.
//
// # Limits
//
// 2^40 nodes and edges, 4096 sections, rows of 16 MiB, node degrees below 2^32.
package layout
