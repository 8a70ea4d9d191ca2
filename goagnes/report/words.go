package report

// Numbers as people read them.

import (
	"fmt"
	"strconv"
	"strings"
)

// bytes writes a number of bytes for people.
func bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return significant(v) + " " + units[u]
}

// duration writes seconds for people.
func duration(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case s < 1e-3:
		return significant(s*1e6) + " µs"
	case s < 1:
		return significant(s*1e3) + " ms"
	case s < 600:
		return significant(s) + " s"
	case s < 6000:
		return significant(s/60) + " min"
	}
	return significant(s/3600) + " h"
}

// significant writes a number with three digits, whole ones in full.
func significant(v float64) string {
	switch {
	case v == float64(int64(v)), v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// count writes a whole number with separators.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// plain writes a number with four digits at most.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
