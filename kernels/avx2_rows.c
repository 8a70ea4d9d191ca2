//go:build cgo && amd64

// Row-wise loops: loading, aggregation, bias, ReLU, dropout, sums, Adam.
//
// Each output element is computed by the same sequence of operations wherever
// it lies in the range, so results do not depend on the split over threads.

#include "avx2.h"
#include "avx2_lanes.h"

TARGET INLINE void load_rows(const int half, float *dst, int64_t dst_stride, const char *src,
                             int64_t row_bytes, const float *scale, int64_t rows, int64_t cols,
                             uint32_t row0, uint32_t col0, const gk_drop *drop)
{
	for (int64_t r = 0; r < rows; r++, dst += dst_stride, src += row_bytes) {
		__m256 s = _mm256_set1_ps(scale ? scale[r] : 1.0f);
		if (!drop->threshold) {
			for (int64_t c = 0; c < cols; c += 8)
				write8(dst + c, _mm256_mul_ps(read8(src, half, c, cols - c), s), cols - c);
			continue;
		}
		for (int64_t c = 0; c < cols; c += 32) {
			__m256i w[4];
			philox8(w, row0 + (uint32_t)r, (col0 + (uint32_t)c) / 4, drop);
			for (int i = 0; i < 4 && c + 8 * i < cols; i++) {
				int64_t at = c + 8 * i;
				__m256 v = _mm256_mul_ps(read8(src, half, at, cols - at), s);
				write8(dst + at, keep8(v, w[i], drop), cols - at);
			}
		}
	}
}

// dst = dropout(scale * src), widened. col0 must be a multiple of 32 where a
// mask is asked for.
TARGET void gk_load(float *dst, int64_t dst_stride, const void *src, int half, int64_t src_stride,
                    const float *scale, int64_t rows, int64_t cols, uint32_t row0, uint32_t col0,
                    gk_drop drop)
{
	if (half)
		load_rows(1, dst, dst_stride, src, src_stride * 2, scale, rows, cols, row0, col0, &drop);
	else
		load_rows(0, dst, dst_stride, src, src_stride * 4, scale, rows, cols, row0, col0, &drop);
}

TARGET void gk_row_sums(float *dst, const void *src, int half, int64_t stride, int64_t rows,
                        int64_t cols, int squares)
{
	const char *row = src;
	for (int64_t r = 0; r < rows; r++, row += stride * (half ? 2 : 4)) {
		__m256 s = _mm256_setzero_ps();
		for (int64_t c = 0; c < cols; c += 8) {
			__m256 v = half ? read8(row, 1, c, cols - c) : read8(row, 0, c, cols - c);
			s = _mm256_add_ps(s, squares ? _mm256_mul_ps(v, v) : v);
		}
		float t[8];
		_mm256_storeu_ps(t, s);
		dst[r] = ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
	}
}

// How many edges ahead of the current one a source row is prefetched.
enum { AHEAD = 12 };

// Up to 64 columns, v accumulators of 8, of targets first..last. all: no column
// is left over.
#define SUM(all)                                                                                  \
	for (int64_t t = first; t < last; t++) {                                                  \
		__m256 acc[8];                                                                    \
		for (int i = 0; i < v; i++)                                                       \
			acc[i] = _mm256_setzero_ps();                                             \
		for (uint32_t j = ptr[t], end = ptr[t + 1]; j < end; j++) {                       \
			if (j + AHEAD < stop) {                                                   \
				const char *f = in + (int64_t)src[j + AHEAD] * row_bytes;         \
				for (int64_t o = 0; o < span; o += 64)                            \
					_mm_prefetch(f + o, _MM_HINT_T0);                         \
			}                                                                         \
			uint32_t u = src[j];                                                      \
			const char *row = in + (int64_t)u * row_bytes;                            \
			float w = weight ? weight[j] : 1.0f;                                      \
			if (col_scale)                                                            \
				w *= col_scale[u];                                                \
			__m256 vw = _mm256_set1_ps(w);                                            \
			for (int i = 0; i < v; i++)                                               \
				acc[i] = _mm256_fmadd_ps(                                         \
					vw, read8(row, half, 8 * i, all ? 8 : cols - 8 * i), acc[i]); \
		}                                                                                 \
		float *o = out + t * ldo;                                                         \
		__m256 vr = _mm256_set1_ps(row_scale ? row_scale[t] : 1.0f);                      \
		__m256 vs = _mm256_set1_ps(self && t < self_rows ? self[t] : 0.0f);               \
		for (int i = 0; i < v; i++) {                                                     \
			int64_t left = all ? 8 : cols - 8 * i;                                   \
			__m256 x = _mm256_mul_ps(acc[i], vr);                                     \
			if (self && t < self_rows)                                                \
				x = _mm256_fmadd_ps(vs, read8(in + t * row_bytes, half, 8 * i, left), x); \
			if (accumulate)                                                           \
				x = _mm256_add_ps(x, read8(o, 0, 8 * i, left));                   \
			write8(o + 8 * i, x, left);                                               \
		}                                                                                 \
	}

#define WIDTH(n)                                                                                  \
	case n: {                                                                                 \
		enum { v = n };                                                                   \
		if (full) {                                                                       \
			SUM(1)                                                                    \
		} else {                                                                          \
			SUM(0)                                                                    \
		}                                                                                 \
		break;                                                                            \
	}

TARGET INLINE void sum_columns(const int half, float *out, int64_t ldo, int64_t first, int64_t last,
                               const uint32_t *ptr, const uint32_t *src, const char *in,
                               int64_t row_bytes, int64_t cols, const float *row_scale,
                               const float *col_scale, const float *weight, const float *self,
                               int64_t self_rows, int accumulate)
{
	const uint32_t stop = ptr[last];
	const int64_t span = cols * (half ? 2 : 4);
	const int full = cols % 8 == 0;
	switch ((cols + 7) / 8) {
		WIDTH(1)
		WIDTH(2)
		WIDTH(3)
		WIDTH(4)
		WIDTH(5)
		WIDTH(6)
		WIDTH(7)
		WIDTH(8)
	}
}

// out[t] (+)= row_scale[t] * sum_j weight[j] * col_scale[src[j]] * in[src[j]]
//             + self[t] * in[t]   for t in first..last.
TARGET void gk_aggregate(float *out, int64_t ldo, int64_t first, int64_t last, const uint32_t *ptr,
                         const uint32_t *src, const void *in, int half, int64_t ldi,
                         int64_t cols, const float *row_scale,
                         const float *col_scale, const float *weight, const float *self,
                         int64_t self_rows, int accumulate)
{
	const int64_t row_bytes = ldi * (half ? 2 : 4);
	for (int64_t c = 0; c < cols; c += 64) {
		const char *at = (const char *)in + c * (half ? 2 : 4);
		int64_t w = cols - c < 64 ? cols - c : 64;
		if (half)
			sum_columns(1, out + c, ldo, first, last, ptr, src, at, row_bytes, w, row_scale,
			            col_scale, weight, self, self_rows, accumulate);
		else
			sum_columns(0, out + c, ldo, first, last, ptr, src, at, row_bytes, w, row_scale,
			            col_scale, weight, self, self_rows, accumulate);
	}
}

// z = dropout(activation(z + bias)), in place; bias may be null.
TARGET void gk_epilogue(float *z, int64_t stride, int64_t rows, int64_t cols, const float *bias,
                        int activation, uint32_t row0, gk_drop drop)
{
	const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1.0f);
	for (int64_t r = 0; r < rows; r++, z += stride)
		for (int64_t c = 0; c < cols; c += 32) {
			__m256i w[4];
			if (drop.threshold)
				philox8(w, row0 + (uint32_t)r, (uint32_t)c / 4, &drop);
			for (int i = 0; i < 4 && c + 8 * i < cols; i++) {
				int64_t at = c + 8 * i, left = cols - at;
				__m256 v = read8(z, 0, at, left);
				if (bias)
					v = _mm256_add_ps(v, read8(bias, 0, at, left));
				if (activation == GK_RELU) {
					v = _mm256_max_ps(zero, v); // second operand: NaN stays
				} else if (activation == GK_ELU) {
					__m256 below = _mm256_cmp_ps(v, zero, _CMP_LT_OQ);
					__m256 e = _mm256_sub_ps(exp8(_mm256_min_ps(zero, v)), one);
					v = _mm256_blendv_ps(v, e, below);
				}
				if (drop.threshold)
					v = keep8(v, w[i], &drop);
				write8(z + at, v, left);
			}
		}
}

// g = h > 0 ? g * scale : 0, in place.
TARGET void gk_relu_grad(float *g, int64_t g_stride, const float *h, int64_t h_stride, int64_t rows,
                         int64_t cols, float scale)
{
	const __m256 zero = _mm256_setzero_ps(), vs = _mm256_set1_ps(scale);
	for (int64_t r = 0; r < rows; r++, g += g_stride, h += h_stride)
		for (int64_t c = 0; c < cols; c += 8) {
			__m256 on = _mm256_cmp_ps(read8(h, 0, c, cols - c), zero, _CMP_GT_OQ);
			__m256 v = _mm256_mul_ps(read8(g, 0, c, cols - c), vs);
			write8(g + c, _mm256_and_ps(v, on), cols - c);
		}
}

// g = kept ? g * scale * (h > 0 ? 1 : h / scale + 1) : 0, in place.
TARGET void gk_elu_grad(float *g, int64_t g_stride, const float *h, int64_t h_stride, int64_t rows,
                        int64_t cols, uint32_t row0, gk_drop drop)
{
	const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1.0f);
	const __m256 back = _mm256_set1_ps(drop.threshold ? 1.0f / drop.scale : 1.0f);
	for (int64_t r = 0; r < rows; r++, g += g_stride, h += h_stride)
		for (int64_t c = 0; c < cols; c += 32) {
			__m256i w[4];
			if (drop.threshold)
				philox8(w, row0 + (uint32_t)r, (uint32_t)c / 4, &drop);
			for (int i = 0; i < 4 && c + 8 * i < cols; i++) {
				int64_t at = c + 8 * i, left = cols - at;
				__m256 x = read8(h, 0, at, left);
				__m256 slope = _mm256_fmadd_ps(x, back, one);
				slope = _mm256_blendv_ps(slope, one, _mm256_cmp_ps(x, zero, _CMP_GT_OQ));
				__m256 v = _mm256_mul_ps(read8(g, 0, at, left), slope);
				if (drop.threshold)
					v = keep8(v, w[i], &drop);
				write8(g + at, v, left);
			}
		}
}

// dst[c] = sum over rows of a[r][c], in blocks of 256 rows (pairwise enough to
// keep the rounding error of long columns small).
TARGET void gk_column_sums(float *dst, const float *a, int64_t stride, int64_t rows, int64_t cols)
{
	for (int64_t c = 0; c < cols; c += 8) {
		__m256 total = _mm256_setzero_ps();
		for (int64_t r0 = 0; r0 < rows; r0 += 256) {
			int64_t r1 = rows - r0 < 256 ? rows : r0 + 256;
			__m256 s = _mm256_setzero_ps();
			for (int64_t r = r0; r < r1; r++)
				s = _mm256_add_ps(s, read8(a + r * stride, 0, c, cols - c));
			total = _mm256_add_ps(total, s);
		}
		write8(dst + c, total, cols - c);
	}
}

// One Adam step, in the operation order of torch.optim.Adam.
TARGET void gk_adam(float *p, const float *g, float *m, float *v, int64_t n, float step,
                    float beta1, float beta2, float eps, float decay, float inv_sqrt_bias2)
{
	const __m256 b1 = _mm256_set1_ps(beta1), b2 = _mm256_set1_ps(beta2);
	const __m256 a1 = _mm256_set1_ps(1 - beta1), a2 = _mm256_set1_ps(1 - beta2);
	const __m256 vd = _mm256_set1_ps(decay), ve = _mm256_set1_ps(eps), vs = _mm256_set1_ps(step);
	const __m256 vi = _mm256_set1_ps(inv_sqrt_bias2);
	for (int64_t i = 0; i < n; i += 8) {
		int64_t left = n - i;
		__m256 w = read8(p, 0, i, left);
		__m256 d = _mm256_fmadd_ps(vd, w, read8(g, 0, i, left));
		__m256 m1 = _mm256_fmadd_ps(b1, read8(m, 0, i, left), _mm256_mul_ps(a1, d));
		__m256 v1 = _mm256_fmadd_ps(b2, read8(v, 0, i, left), _mm256_mul_ps(a2, _mm256_mul_ps(d, d)));
		__m256 q = _mm256_add_ps(_mm256_mul_ps(_mm256_sqrt_ps(v1), vi), ve);
		w = _mm256_sub_ps(w, _mm256_mul_ps(vs, _mm256_div_ps(m1, q)));
		write8(m + i, m1, left);
		write8(v + i, v1, left);
		write8(p + i, w, left);
	}
}
