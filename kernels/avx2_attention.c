//go:build cgo && amd64

// Attention: scores, softmax over a target's edges, weighted sums, gradients.
//
// Each output element is computed by the same sequence of operations wherever
// it lies in the range, so results do not depend on the split over threads.

#include "avx2.h"
#include "avx2_lanes.h"

TARGET INLINE float sum8(__m256 s)
{
	float t[8];
	_mm256_storeu_ps(t, s);
	return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
}

TARGET INLINE float dot(const float *a, const float *b, int64_t n)
{
	__m256 s = _mm256_setzero_ps();
	for (int64_t c = 0; c < n; c += 8)
		s = _mm256_fmadd_ps(read8(a, 0, c, n - c), read8(b, 0, c, n - c), s);
	return sum8(s);
}

// dst += w * v
TARGET INLINE void add_scaled(float *dst, const float *v, float w, int64_t n)
{
	__m256 vw = _mm256_set1_ps(w);
	for (int64_t c = 0; c < n; c += 8)
		write8(dst + c, _mm256_fmadd_ps(vw, read8(v, 0, c, n - c), read8(dst, 0, c, n - c)), n - c);
}

INLINE int dropped(float w)
{
	return __builtin_signbit(w) != 0;
}

INLINE float kept(float w, float scale)
{
	return dropped(w) ? 0.0f : w * scale;
}

INLINE float leaky(float s, float slope)
{
	return s > 0 ? s : slope * s;
}

// The larger; NaN where v is one.
INLINE float larger(float m, float v)
{
	return v <= m ? m : v;
}

TARGET void gk_head_dots(float *dst, const float *x, int64_t ldx, const float *vector, int64_t heads,
                         int64_t cols, int64_t rows)
{
	for (int64_t r = 0; r < rows; r++, x += ldx, dst += heads)
		for (int64_t h = 0; h < heads; h++)
			dst[h] = dot(x + h * cols, vector + h * cols, cols);
}

// Sets the sign of what the mask of row r drops.
TARGET INLINE void mask_row(float *w, int64_t n, uint32_t r, const gk_drop *d)
{
	const __m256 sign = _mm256_set1_ps(-0.0f);
	const __m256i least = _mm256_set1_epi32((int)d->threshold);
	for (int64_t c = 0; c < n; c += 32) {
		__m256i word[4];
		philox8(word, r, (uint32_t)c / 4, d);
		for (int i = 0; i < 4 && c + 8 * i < n; i++) {
			int64_t at = c + 8 * i, left = n - at;
			__m256i keep = _mm256_cmpeq_epi32(_mm256_max_epu32(word[i], least), word[i]);
			__m256 flip = _mm256_andnot_ps(_mm256_castsi256_ps(keep), sign);
			write8(w + at, _mm256_xor_ps(read8(w, 0, at, left), flip), left);
		}
	}
}

TARGET void gk_attention_weights(const gk_attention *a, int64_t first, int64_t last, gk_drop edges,
                                 gk_drop selves)
{
	const int64_t n = a->heads;
	for (int64_t t = first; t < last; t++) {
		const int64_t lo = a->ptr[t], hi = a->ptr[t + 1];
		const float *target = a->target + t * n;
		float *self = a->self + t * n, *w = a->weight;
		for (int64_t h = 0; h < n; h++) {
			float own = leaky(target[h] + a->source[t * n + h], a->slope), peak = own;
			for (int64_t j = lo; j < hi; j++) {
				int64_t u = a->src[j];
				if (u == t)
					continue;
				float v = leaky(target[h] + a->source[u * n + h], a->slope);
				w[j * n + h] = v;
				peak = larger(peak, v);
			}
			for (int64_t j = lo; j < hi; j++)
				w[j * n + h] = a->src[j] == t ? -__builtin_inff() : w[j * n + h] - peak;
			self[h] = own - peak;
		}
		for (int64_t c = lo * n; c < hi * n; c += 8)
			write8(w + c, exp8(read8(w, 0, c, hi * n - c)), hi * n - c);
		for (int64_t h = 0; h < n; h += 8)
			write8(self + h, exp8(read8(self, 0, h, n - h)), n - h);
		for (int64_t h = 0; h < n; h++) {
			float sum = 0;
			for (int64_t j = lo; j < hi; j++)
				sum += w[j * n + h];
			float inverse = 1 / (sum + self[h]);
			self[h] *= inverse;
			for (int64_t j = lo; j < hi; j++)
				w[j * n + h] *= inverse;
		}
		if (edges.threshold) {
			for (int64_t j = lo; j < hi; j++)
				mask_row(w + j * n, n, (uint32_t)j, &edges);
			mask_row(self, n, (uint32_t)t, &selves);
		}
	}
}

// v vectors of one head's columns, the last of them cut at left columns, of one
// output row: o += sum of weighted rows.
TARGET INLINE void gather(const int v, const int full, int64_t left, float *o, const uint32_t *row,
                          const uint32_t *edge, int64_t lo, int64_t hi, const float *in, int64_t ldi,
                          const float *weight, int64_t n, float scale)
{
	__m256 acc[8];
	for (int i = 0; i < v; i++)
		acc[i] = read8(o, 0, 8 * i, full ? 8 : left - 8 * i);
	for (int64_t j = lo; j < hi; j++) {
		float w = kept(weight[(int64_t)(edge ? edge[j] : (uint32_t)j) * n], scale);
		if (w == 0)
			continue;
		const float *r = in + (int64_t)row[j] * ldi;
		__m256 vw = _mm256_set1_ps(w);
		for (int i = 0; i < v; i++)
			acc[i] = _mm256_fmadd_ps(vw, read8(r, 0, 8 * i, full ? 8 : left - 8 * i), acc[i]);
	}
	for (int i = 0; i < v; i++)
		write8(o + 8 * i, acc[i], full ? 8 : left - 8 * i);
}

#define GATHER(v)                                                                                 \
	case v:                                                                                   \
		if (left % 8 == 0)                                                                \
			gather(v, 1, left, o + c, row, edge, lo, hi, in + c, ldi, weight, n, scale); \
		else                                                                              \
			gather(v, 0, left, o + c, row, edge, lo, hi, in + c, ldi, weight, n, scale); \
		break;

// One head's columns of one output row; edge is null where weights lie in the
// order of row.
TARGET static void gather_head(float *o, int64_t cols, const uint32_t *row, const uint32_t *edge,
                               int64_t lo, int64_t hi, const float *in, int64_t ldi,
                               const float *weight, int64_t n, float scale)
{
	for (int64_t c = 0; c < cols; c += 64) {
		int64_t left = cols - c < 64 ? cols - c : 64;
		switch ((left + 7) / 8) {
			GATHER(1)
			GATHER(2)
			GATHER(3)
			GATHER(4)
			GATHER(5)
			GATHER(6)
			GATHER(7)
			GATHER(8)
		}
	}
}

TARGET void gk_attend(float *out, int64_t ldo, const gk_attention *a, int64_t first, int64_t last)
{
	const int64_t n = a->heads, cols = a->cols;
	for (int64_t t = first; t < last; t++)
		for (int64_t h = 0; h < n; h++) {
			float *o = out + t * ldo + (a->mean ? 0 : h * cols);
			const float *in = a->x + h * cols;
			gather_head(o, cols, a->src, 0, a->ptr[t], a->ptr[t + 1], in, a->ldx, a->weight + h, n,
			            a->scale);
			add_scaled(o, in + t * a->ldx, kept(a->self[t * n + h], a->scale), cols);
		}
}

// Gradient of LeakyReLU and softmax.
INLINE float softmax_grad(float w, float d, float mean, float s, float slope)
{
	d = __builtin_fabsf(w) * (d - mean);
	return s > 0 ? d : d * slope;
}

TARGET void gk_attention_grad(const float *dz, int64_t ldz, const gk_attention *a, int64_t first,
                              int64_t last, float *dweight, float *dself, float *dtarget)
{
	const int64_t n = a->heads, cols = a->cols;
	for (int64_t t = first; t < last; t++) {
		const int64_t lo = a->ptr[t], hi = a->ptr[t + 1];
		for (int64_t h = 0; h < n; h++) {
			const float *g = dz + t * ldz + (a->mean ? 0 : h * cols), *x = a->x + h * cols;
			const float target = a->target[t * n + h];
			float mean = 0;
			for (int64_t j = lo; j < hi; j++) {
				int64_t u = a->src[j];
				if (u == t)
					continue;
				float w = a->weight[j * n + h];
				float d = dropped(w) ? 0 : a->scale * dot(g, x + u * a->ldx, cols);
				dweight[j * n + h] = d;
				mean += __builtin_fabsf(w) * d;
			}
			float w = a->self[t * n + h];
			float own = dropped(w) ? 0 : a->scale * dot(g, x + t * a->ldx, cols);
			mean += __builtin_fabsf(w) * own;
			own = softmax_grad(w, own, mean, target + a->source[t * n + h], a->slope);
			float sum = 0;
			for (int64_t j = lo; j < hi; j++) {
				int64_t u = a->src[j];
				float *d = dweight + j * n + h;
				*d = u == t ? 0 : softmax_grad(a->weight[j * n + h], *d, mean, target + a->source[u * n + h], a->slope);
				sum += *d;
			}
			dself[t * n + h] = own;
			dtarget[t * n + h] = sum + own;
		}
	}
}

// a->ptr and a->src are the transposed graph here.
TARGET void gk_attention_back(float *dx, int64_t lddx, const float *dz, int64_t ldz,
                              const gk_attention *a, int64_t first, int64_t last, int64_t targets,
                              const uint32_t *edge, const float *dweight, const float *dself,
                              const float *dtarget, const float *source_vector,
                              const float *target_vector, float *dsource)
{
	const int64_t n = a->heads, cols = a->cols;
	for (int64_t u = first; u < last; u++) {
		const int64_t lo = a->ptr[u], hi = a->ptr[u + 1];
		for (int64_t h = 0; h < n; h++) {
			float *o = dx + u * lddx + h * cols;
			const float *g = dz + (a->mean ? 0 : h * cols);
			for (int64_t c = 0; c < cols; c++)
				o[c] = 0;
			gather_head(o, cols, a->src, edge, lo, hi, g, ldz, a->weight + h, n, a->scale);
			float sum = 0;
			for (int64_t k = lo; k < hi; k++)
				sum += dweight[(int64_t)edge[k] * n + h];
			if (u < targets) {
				add_scaled(o, g + u * ldz, kept(a->self[u * n + h], a->scale), cols);
				sum += dself[u * n + h];
				add_scaled(o, target_vector + h * cols, dtarget[u * n + h], cols);
			}
			add_scaled(o, source_vector + h * cols, sum, cols);
			dsource[u * n + h] = sum;
		}
	}
}
