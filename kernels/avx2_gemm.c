//go:build cgo && amd64

// Matrix product: packed panels of B, a 6x16 register tile of C.
//
// Every element of C is one chain of fused multiply-adds over k in ascending
// order, whatever tile it falls in, so results do not depend on how rows are
// split over threads.

#include "avx2.h"

#include <cpuid.h>
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))

int gk_supported(void)
{
	unsigned a, b, c, d;
	__builtin_cpu_init();
	// The first two include the system's support of the registers; not every
	// compiler knows the third by name.
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// Packs k x n of B (or of its transpose) into panels of 16 columns, the last
// one padded with zeros: bp[panel][p][16].
TARGET void gk_pack(float *bp, const float *b, int64_t ldb, int transposed, int64_t k, int64_t n)
{
	for (int64_t j = 0; j < n; j += GK_PANEL, bp += k * GK_PANEL) {
		int64_t w = n - j < GK_PANEL ? n - j : GK_PANEL;
		if (transposed) {
			if (w < GK_PANEL)
				for (int64_t i = 0; i < k * GK_PANEL; i++)
					bp[i] = 0;
			for (int64_t c = 0; c < w; c++) {
				const float *s = b + (j + c) * ldb;
				for (int64_t p = 0; p < k; p++)
					bp[p * GK_PANEL + c] = s[p];
			}
		} else if (w == GK_PANEL) {
			const float *s = b + j;
			for (int64_t p = 0; p < k; p++, s += ldb) {
				_mm256_storeu_ps(bp + p * GK_PANEL, _mm256_loadu_ps(s));
				_mm256_storeu_ps(bp + p * GK_PANEL + 8, _mm256_loadu_ps(s + 8));
			}
		} else {
			for (int64_t p = 0; p < k; p++) {
				const float *s = b + p * ldb + j;
				int64_t c = 0;
				for (; c < w; c++)
					bp[p * GK_PANEL + c] = s[c];
				for (; c < GK_PANEL; c++)
					bp[p * GK_PANEL + c] = 0;
			}
		}
	}
}

#define STEP(i)                                                                                   \
	if (mr > i) {                                                                             \
		__m256 v = _mm256_broadcast_ss(at ? a + i : a + i * lda + p);                     \
		lo##i = _mm256_fmadd_ps(v, b0, lo##i);                                            \
		hi##i = _mm256_fmadd_ps(v, b1, hi##i);                                            \
	}

#define STORE(i)                                                                                  \
	if (mr > i) {                                                                             \
		float *d = c + i * ldc;                                                           \
		lo##i = _mm256_mul_ps(lo##i, va);                                                 \
		hi##i = _mm256_mul_ps(hi##i, va);                                                 \
		if (full) {                                                                       \
			if (beta != 0) {                                                          \
				lo##i = _mm256_fmadd_ps(vb, _mm256_loadu_ps(d), lo##i);           \
				hi##i = _mm256_fmadd_ps(vb, _mm256_loadu_ps(d + 8), hi##i);       \
			}                                                                         \
			_mm256_storeu_ps(d, lo##i);                                               \
			_mm256_storeu_ps(d + 8, hi##i);                                           \
		} else {                                                                          \
			if (beta != 0) {                                                          \
				lo##i = _mm256_fmadd_ps(vb, _mm256_maskload_ps(d, m0), lo##i);    \
				hi##i = _mm256_fmadd_ps(vb, _mm256_maskload_ps(d + 8, m1), hi##i); \
			}                                                                         \
			_mm256_maskstore_ps(d, m0, lo##i);                                        \
			_mm256_maskstore_ps(d + 8, m1, hi##i);                                    \
		}                                                                                 \
	}

// One tile of C: mr rows (1..6) and w columns (1..16). at: A is stored
// k-major, rows of the tile adjacent.
TARGET INLINE void tile(const int mr, const int at, int64_t w, int64_t k, const float *a,
                        int64_t lda, const float *bp, float *c, int64_t ldc, float alpha,
                        float beta)
{
	__m256 lo0 = _mm256_setzero_ps(), hi0 = lo0, lo1 = lo0, hi1 = lo0, lo2 = lo0, hi2 = lo0;
	__m256 lo3 = lo0, hi3 = lo0, lo4 = lo0, hi4 = lo0, lo5 = lo0, hi5 = lo0;
	for (int64_t p = 0; p < k; p++) {
		__m256 b0 = _mm256_loadu_ps(bp), b1 = _mm256_loadu_ps(bp + 8);
		STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5)
		bp += GK_PANEL;
		if (at)
			a += lda;
	}
	const __m256 va = _mm256_set1_ps(alpha), vb = _mm256_set1_ps(beta);
	const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	const __m256i m0 = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)w), lane);
	const __m256i m1 = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)w - 8), lane);
	const int full = w >= GK_PANEL;
	STORE(0) STORE(1) STORE(2) STORE(3) STORE(4) STORE(5)
}

#define CASES(at, step)                                                                           \
	switch (m - i) {                                                                          \
	default: tile(6, at, w, k, a + i * (step), lda, bp, c + i * ldc + j, ldc, alpha, beta); break; \
	case 5: tile(5, at, w, k, a + i * (step), lda, bp, c + i * ldc + j, ldc, alpha, beta); break; \
	case 4: tile(4, at, w, k, a + i * (step), lda, bp, c + i * ldc + j, ldc, alpha, beta); break; \
	case 3: tile(3, at, w, k, a + i * (step), lda, bp, c + i * ldc + j, ldc, alpha, beta); break; \
	case 2: tile(2, at, w, k, a + i * (step), lda, bp, c + i * ldc + j, ldc, alpha, beta); break; \
	case 1: tile(1, at, w, k, a + i * (step), lda, bp, c + i * ldc + j, ldc, alpha, beta); break; \
	}

// C[m][n] = alpha * A * B + beta * C for one packed k x n block of B. C is not
// read where beta is 0. a_transposed: A is stored k x m.
TARGET void gk_gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, int a_transposed,
                    const float *bp, float *c, int64_t ldc, float alpha, float beta)
{
	for (int64_t j = 0; j < n; j += GK_PANEL, bp += k * GK_PANEL) {
		int64_t w = n - j < GK_PANEL ? n - j : GK_PANEL;
		if (a_transposed) {
			for (int64_t i = 0; i < m; i += 6)
				CASES(1, 1)
		} else {
			for (int64_t i = 0; i < m; i += 6)
				CASES(0, lda)
		}
	}
}
