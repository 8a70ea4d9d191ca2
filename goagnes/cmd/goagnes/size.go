// Sizes of memory and files as people write them.
package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// units are binary (KiB, MiB, …) and decimal (kB, MB, …) multiples of a byte.
var units = map[string]float64{
	"": 1, "b": 1,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// sizeText is a decimal number, then a unit or none.
var sizeText = regexp.MustCompile(`^\s*([0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]+)?)\s*([A-Za-z]*)\s*$`)

// parseSize reads a number of bytes: "288MiB", "1.5 GiB", "2GB", "64M", "1e9",
// "4096". The rule is Python's too, and tests/sizes.json holds both to it.
func parseSize(text string) (int64, error) {
	match := sizeText.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("%q is not a size: write for example 512MiB or 2GB", text)
	}
	unit, known := units[strings.ToLower(match[2])]
	if !known {
		return 0, fmt.Errorf("%q is not a size: write for example 512MiB or 2GB", text)
	}
	if n, err := strconv.ParseInt(match[1], 10, 64); err == nil && unit == 1 && n > 0 && n < 1<<62 {
		return n, nil // exact beyond 2^53
	}
	value, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is too large a size", text)
	}
	bytes := value * unit
	if bytes < 1 {
		return 0, fmt.Errorf("%q is less than a byte; leave the flag out for the default", text)
	}
	if bytes >= 1<<62 {
		return 0, fmt.Errorf("%q is too large a size", text)
	}
	return int64(bytes), nil
}

// formatSize writes a number of bytes for people, with three digits.
func formatSize(n int64) string {
	value, suffix := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(value) < 1000 {
			break
		}
		value, suffix = value/1024, next
	}
	if suffix == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", value, suffix)
}
