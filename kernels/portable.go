package kernels

// The portable backend: the reference in plain Go. Products are rounded before
// they are added (explicit conversions), so that no compiler fuses them in one
// place and not in another.

import "math"

type portable struct{}

func (portable) name() string { return "portable" }

func (portable) pack(panels, b []float32, ldb int, transposed bool, k, n int) {
	for j := 0; j < n; j += panelWidth {
		w := min(panelWidth, n-j)
		for p := range k {
			row := panels[p*panelWidth : (p+1)*panelWidth]
			if transposed {
				for c := range w {
					row[c] = b[(j+c)*ldb+p]
				}
			} else {
				copy(row, b[p*ldb+j:p*ldb+j+w])
			}
			clear(row[w:])
		}
		panels = panels[k*panelWidth:]
	}
}

func (portable) gemm(m, n, k int, a []float32, lda int, transposed bool, panels, c []float32, ldc int, alpha, beta float32) {
	rs, ps := lda, 1
	if transposed {
		rs, ps = 1, lda
	}
	for j := 0; j < n; j += panelWidth {
		w := min(panelWidth, n-j)
		panel := panels[:k*panelWidth]
		panels = panels[k*panelWidth:]
		for i := range m {
			out := c[i*ldc+j : i*ldc+j+w]
			for q := 0; q < w; q += 8 {
				var s [8]float32
				dot8(&s, a[i*rs:], ps, panel[q:], k)
				for x := range min(8, w-q) {
					v := alpha * s[x]
					if beta != 0 {
						v += float32(beta * out[q+x])
					}
					out[q+x] = v
				}
			}
		}
	}
}

// dot8 sums a[p*step] * panel[p*panelWidth+x] over p, for 8 columns x.
func dot8(s *[8]float32, a []float32, step int, panel []float32, k int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for p := range k {
		v := a[p*step]
		b := (*[8]float32)(panel[p*panelWidth:])
		s0 += float32(v * b[0])
		s1 += float32(v * b[1])
		s2 += float32(v * b[2])
		s3 += float32(v * b[3])
		s4 += float32(v * b[4])
		s5 += float32(v * b[5])
		s6 += float32(v * b[6])
		s7 += float32(v * b[7])
	}
	*s = [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}

// mask calls f for each of cols columns from col (a multiple of maskWidth) of a
// row, with whether the element is kept.
func (d Dropout) mask(row, col, cols int, f func(c int, kept bool)) {
	threshold := d.threshold()
	for c0 := 0; c0 < cols; c0 += maskWidth {
		for lane := range 8 {
			w := Philox(d.Key, [4]uint32{uint32(row), uint32((col+c0)/4 + lane), d.Layer, 0})
			for i, word := range w {
				if c := c0 + 8*i + lane; c < cols {
					f(c, word >= threshold)
				}
			}
		}
	}
}

// apply masks the row in place.
func (d Dropout) apply(v []float32, row, col int) {
	scale := d.scale()
	d.mask(row, col, len(v), func(c int, kept bool) {
		if kept {
			v[c] *= scale
		} else {
			v[c] = 0
		}
	})
}

func (portable) load(dst []float32, stride int, in *Input, row, rows, col, cols int) {
	for r := range rows {
		out := dst[r*stride : r*stride+cols]
		scale := float32(1)
		if in.Scale != nil {
			scale = in.Scale[row+r]
		}
		for c := range out {
			out[c] = in.at(row+r, col+c) * scale
		}
		if in.Drop.threshold() > 0 {
			in.Drop.apply(out, row+r, col)
		}
	}
}

func (portable) rowSums(dst []float32, in *Input, row, rows int, squares bool) {
	for r := range rows {
		var s [8]float32
		for c := range in.Cols {
			v := in.at(row+r, c)
			if squares {
				v *= v
			}
			s[c%8] += v
		}
		dst[r] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
	}
}

func (portable) aggregate(out Matrix, first, last int, g *Aggregation) {
	var acc [64]float32
	for t := first; t < last; t++ {
		o := out.row(t)
		scale := float32(1)
		if g.RowScale != nil {
			scale = g.RowScale[t]
		}
		for c0 := 0; c0 < out.Cols; c0 += len(acc) {
			sum := acc[:min(len(acc), out.Cols-c0)]
			clear(sum)
			for j := g.Ptr[t]; j < g.Ptr[t+1]; j++ {
				u := int(g.Src[j])
				w := float32(1)
				if g.Weight != nil {
					w = g.Weight[j]
				}
				if g.ColScale != nil {
					w *= g.ColScale[u]
				}
				addRow(sum, w, &g.In, u, c0)
			}
			for c := range sum {
				sum[c] *= scale
			}
			if t < len(g.Self) {
				addRow(sum, g.Self[t], &g.In, t, c0)
			}
			for c, v := range sum {
				if g.Accumulate {
					v += o[c0+c]
				}
				o[c0+c] = v
			}
		}
	}
}

// addRow adds w times columns col… of a row of in to sum.
func addRow(sum []float32, w float32, in *Input, row, col int) {
	at := row*in.Stride + col
	if in.F16 != nil {
		for c, v := range in.F16[at : at+len(sum)] {
			sum[c] += float32(w * widen(v))
		}
		return
	}
	for c, v := range in.F32[at : at+len(sum)] {
		sum[c] += float32(w * v)
	}
}

func (portable) epilogue(z Matrix, row, rows int, bias []float32, f Activation, d Dropout) {
	for r := row; r < row+rows; r++ {
		v := z.row(r)
		for c, b := range bias {
			v[c] += b
		}
		switch f {
		case ReLU:
			for c, x := range v {
				if x <= 0 { // NaN stays
					v[c] = 0
				}
			}
		case ELU:
			for c, x := range v {
				if x < 0 {
					v[c] = float32(math.Expm1(float64(x)))
				}
			}
		}
		if d.threshold() > 0 {
			d.apply(v, r, 0)
		}
	}
}

func (portable) reluGrad(g, h Matrix, row, rows int, scale float32) {
	for r := row; r < row+rows; r++ {
		v := g.row(r)
		for c, x := range h.row(r) {
			if x > 0 {
				v[c] *= scale
			} else {
				v[c] = 0
			}
		}
	}
}

func (portable) eluGrad(g, h Matrix, row, rows int, d Dropout) {
	back := 1 / d.scale()
	for r := row; r < row+rows; r++ {
		v := g.row(r)
		for c, x := range h.row(r) {
			if !(x > 0) {
				v[c] *= float32(x*back) + 1
			}
		}
		if d.threshold() > 0 {
			d.apply(v, r, 0)
		}
	}
}

func (portable) columnSums(dst []float32, a Matrix, col, cols int) {
	clear(dst)
	var block [32]float32
	for r0 := 0; r0 < a.Rows; r0 += 256 {
		s := block[:cols]
		clear(s)
		for r := r0; r < min(r0+256, a.Rows); r++ {
			for c, v := range a.row(r)[col : col+cols] {
				s[c] += v
			}
		}
		for c, v := range s {
			dst[c] += v
		}
	}
}

func (portable) adam(p, g, m, v []float32, s adamStep) {
	for i, w := range p {
		d := g[i] + float32(s.decay*w)
		m[i] = float32(s.beta1*m[i]) + float32((1-s.beta1)*d)
		v[i] = float32(s.beta2*v[i]) + float32((1-s.beta2)*float32(d*d))
		q := float32(float32(math.Sqrt(float64(v[i])))*s.invSqrtBias2) + s.eps
		p[i] = w - float32(s.step*(m[i]/q))
	}
}
