// Eight lanes at a time: reads and writes of row tails, the dropout stream, e^x.
// Shared by the C files of the AVX2 backend.
#ifndef GOAGNES_KERNELS_AVX2_LANES_H
#define GOAGNES_KERNELS_AVX2_LANES_H

#include "avx2.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define INLINE static inline __attribute__((always_inline))

TARGET INLINE __m256i tail_mask(int64_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Reads up to 8 elements of a row, zeros beyond n.
TARGET INLINE __m256 read8(const void *row, const int half, int64_t c, int64_t n)
{
	if (half) {
		const uint16_t *p = (const uint16_t *)row + c;
		if (n >= 8)
			return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
		uint16_t t[8] = {0};
		for (int i = 0, left = (int)n & 7; i < left; i++)
			t[i] = p[i];
		return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)t));
	}
	const float *p = (const float *)row + c;
	return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, tail_mask(n));
}

TARGET INLINE void write8(float *p, __m256 v, int64_t n)
{
	if (n >= 8)
		_mm256_storeu_ps(p, v);
	else
		_mm256_maskstore_ps(p, tail_mask(n), v);
}

TARGET INLINE void mul_wide(__m256i x, __m256i m, __m256i *hi, __m256i *lo)
{
	__m256i even = _mm256_mul_epu32(x, m);
	__m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), m);
	*hi = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
	*lo = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

// Philox4x32-10 over 8 consecutive second counter words: w[i] holds word i of
// each of the 8 blocks.
TARGET INLINE void philox8(__m256i w[4], uint32_t row, uint32_t block, const gk_drop *d)
{
	const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
	__m256i c0 = _mm256_set1_epi32((int)row);
	__m256i c1 = _mm256_add_epi32(_mm256_set1_epi32((int)block),
	                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
	__m256i c2 = _mm256_set1_epi32((int)d->layer), c3 = _mm256_setzero_si256();
	uint32_t k0 = d->key0, k1 = d->key1;
	for (int r = 0; r < 10; r++) {
		__m256i h0, l0, h1, l1;
		mul_wide(c0, m0, &h0, &l0);
		mul_wide(c2, m1, &h1, &l1);
		c0 = _mm256_xor_si256(_mm256_xor_si256(h1, c1), _mm256_set1_epi32((int)k0));
		c2 = _mm256_xor_si256(_mm256_xor_si256(h0, c3), _mm256_set1_epi32((int)k1));
		c1 = l1;
		c3 = l0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	w[0] = c0;
	w[1] = c1;
	w[2] = c2;
	w[3] = c3;
}

// v * scale where the word is not below the threshold, else 0.
TARGET INLINE __m256 keep8(__m256 v, __m256i word, const gk_drop *d)
{
	__m256i t = _mm256_set1_epi32((int)d->threshold);
	__m256i kept = _mm256_cmpeq_epi32(_mm256_max_epu32(word, t), word);
	return _mm256_and_ps(_mm256_mul_ps(v, _mm256_set1_ps(d->scale)), _mm256_castsi256_ps(kept));
}

// e^x for x <= 0 (Cephes: x = n ln 2 + r, a polynomial of degree 5 in r), within
// two units in the last place; 0 below -87.3, NaN stays.
TARGET INLINE __m256 exp8(__m256 x)
{
	const __m256 low = _mm256_set1_ps(-87.3f), one = _mm256_set1_ps(1.0f);
	__m256 under = _mm256_cmp_ps(x, low, _CMP_LT_OQ);
	__m256 v = _mm256_max_ps(low, x); // second operand: NaN stays
	__m256 n = _mm256_round_ps(_mm256_mul_ps(v, _mm256_set1_ps(1.44269504088896341f)),
	                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	__m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), v);
	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
	__m256 p = _mm256_set1_ps(1.9875691500e-4f);
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
	p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), one);
	__m256i e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
	return _mm256_andnot_ps(under, _mm256_mul_ps(p, _mm256_castsi256_ps(e)));
}

#endif
