package kernels

// The portable loops of attention.

import "math"

func (portable) headDots(dst []float32, x Matrix, vector []float32, heads, first, last int) {
	cols := x.Cols / heads
	for r := first; r < last; r++ {
		row := x.row(r)
		for h := range heads {
			dst[r*heads+h] = dot(row[h*cols:(h+1)*cols], vector[h*cols:])
		}
	}
}

// dot adds in eight lanes, as the vector units do.
func dot(a, b []float32) float32 {
	var s [8]float32
	for c, v := range a {
		s[c%8] += float32(v * b[c])
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

func leaky(s, slope float32) float32 {
	if s > 0 {
		return s
	}
	return slope * s
}

func (portable) attentionWeights(a *Attention, first, last int, edges, selves Dropout) {
	n := a.Heads
	for t := first; t < last; t++ {
		self, target := a.Self[t*n:(t+1)*n], a.Target[t*n:(t+1)*n]
		lo, hi := int(a.Ptr[t]), int(a.Ptr[t+1])
		for h := range n {
			own := leaky(target[h]+a.Source[t*n+h], a.Slope)
			peak := own
			for j := lo; j < hi; j++ {
				if u := int(a.Src[j]); u != t {
					v := leaky(target[h]+a.Source[u*n+h], a.Slope)
					a.Weight[j*n+h] = v
					peak = max(peak, v)
				}
			}
			var sum float32
			for j := lo; j < hi; j++ {
				w := &a.Weight[j*n+h]
				if int(a.Src[j]) == t {
					*w = 0
					continue
				}
				*w = float32(math.Exp(float64(*w - peak)))
				sum += *w
			}
			self[h] = float32(math.Exp(float64(own - peak)))
			inverse := 1 / (sum + self[h])
			self[h] *= inverse
			for j := lo; j < hi; j++ {
				a.Weight[j*n+h] *= inverse
			}
		}
		if edges.threshold() == 0 {
			continue
		}
		negate := func(row []float32, d Dropout, r int) {
			d.mask(r, 0, n, func(h int, kept bool) {
				if !kept {
					row[h] = -row[h]
				}
			})
		}
		for j := lo; j < hi; j++ {
			negate(a.Weight[j*n:(j+1)*n], edges, j)
		}
		negate(self, selves, t)
	}
}

// block returns columns of head h in a row that has one block a head, or one for
// all where mean is set.
func block(row []float32, h, cols int, mean bool) []float32 {
	if mean {
		return row[:cols]
	}
	return row[h*cols : (h+1)*cols]
}

func addScaled(dst, v []float32, w float32) {
	for c, x := range v {
		dst[c] += float32(w * x)
	}
}

func (portable) attend(out Matrix, a *Attention, first, last int) {
	n, cols, scale := a.Heads, a.In.Cols/a.Heads, a.scale()
	for t := first; t < last; t++ {
		for h := range n {
			o := block(out.row(t), h, cols, a.Mean)
			for j := int(a.Ptr[t]); j < int(a.Ptr[t+1]); j++ {
				addScaled(o, block(a.In.row(int(a.Src[j])), h, cols, false), kept(a.Weight[j*n+h], scale))
			}
			addScaled(o, block(a.In.row(t), h, cols, false), kept(a.Self[t*n+h], scale))
		}
	}
}

func (portable) attentionGrad(dz Matrix, a *Attention, first, last int, dWeight, dSelf, dTarget []float32) {
	n, cols, scale := a.Heads, a.In.Cols/a.Heads, a.scale()
	// gradient of a stored weight
	by := func(w float32, g []float32, u, h int) float32 {
		if math.Signbit(float64(w)) {
			return 0
		}
		return scale * dot(g, block(a.In.row(u), h, cols, false))
	}
	for t := first; t < last; t++ {
		for h := range n {
			g, target := block(dz.row(t), h, cols, a.Mean), a.Target[t*n+h]
			var mean float32
			for j := int(a.Ptr[t]); j < int(a.Ptr[t+1]); j++ {
				if u := int(a.Src[j]); u != t {
					w := a.Weight[j*n+h]
					d := by(w, g, u, h)
					dWeight[j*n+h] = d
					mean += float32(abs(w) * d)
				}
			}
			w := a.Self[t*n+h]
			own := by(w, g, t, h)
			mean += float32(abs(w) * own)
			softmax := func(w, d, source float32) float32 {
				d = abs(w) * (d - mean)
				if !(target+source > 0) {
					d *= a.Slope
				}
				return d
			}
			own = softmax(w, own, a.Source[t*n+h])
			var sum float32
			for j := int(a.Ptr[t]); j < int(a.Ptr[t+1]); j++ {
				d := &dWeight[j*n+h]
				if u := int(a.Src[j]); u == t {
					*d = 0
				} else {
					*d = softmax(a.Weight[j*n+h], *d, a.Source[u*n+h])
					sum += *d
				}
			}
			dSelf[t*n+h], dTarget[t*n+h] = own, sum+own
		}
	}
}

func abs(v float32) float32 { return float32(math.Abs(float64(v))) }

func (portable) attentionBack(dx, dz Matrix, a *Attention, first, last int, g *AttentionTransposed) {
	n, cols, scale := a.Heads, a.In.Cols/a.Heads, a.scale()
	for u := first; u < last; u++ {
		clear(dx.row(u))
		for h := range n {
			o := block(dx.row(u), h, cols, false)
			var sum float32
			for k := g.Ptr[u]; k < g.Ptr[u+1]; k++ {
				j := int(g.Edge[k])
				addScaled(o, block(dz.row(int(g.Dst[k])), h, cols, a.Mean), kept(a.Weight[j*n+h], scale))
				sum += g.DWeight[j*n+h]
			}
			if u < dz.Rows {
				addScaled(o, block(dz.row(u), h, cols, a.Mean), kept(a.Self[u*n+h], scale))
				sum += g.DSelf[u*n+h]
				addScaled(o, g.TargetVector[h*cols:(h+1)*cols], g.DTarget[u*n+h])
			}
			addScaled(o, g.SourceVector[h*cols:(h+1)*cols], sum)
			g.DSource[u*n+h] = sum
		}
	}
}
