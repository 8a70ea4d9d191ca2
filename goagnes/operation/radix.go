package operation

// sortPairs sorts keys ascending and carries values along, stably, by least
// significant digits of 11 bits. tmpK and tmpV have the length of keys.
// Digits in which all keys agree are skipped.
func sortPairs(keys, values, tmpK, tmpV []uint32) {
	const digit, buckets = 11, 1 << 11
	var all, any uint32 = ^uint32(0), 0
	for _, k := range keys {
		all &= k
		any |= k
	}
	differ := all ^ any
	from, fromV, to, toV := keys, values, tmpK[:len(keys)], tmpV[:len(keys)]
	for shift := 0; shift < 32; shift += digit {
		if differ>>shift&(buckets-1) == 0 {
			continue
		}
		var count [buckets]uint32
		for _, k := range from {
			count[k>>shift&(buckets-1)]++
		}
		sum := uint32(0)
		for i, c := range count {
			count[i] = sum
			sum += c
		}
		for i, k := range from {
			d := k >> shift & (buckets - 1)
			to[count[d]] = k
			toV[count[d]] = fromV[i]
			count[d]++
		}
		from, fromV, to, toV = to, toV, from, fromV
	}
	if len(keys) > 0 && &from[0] != &keys[0] {
		copy(keys, from)
		copy(values, fromV)
	}
}
