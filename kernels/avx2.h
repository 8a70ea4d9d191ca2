// The AVX2+FMA+F16C inner loops of package kernels. Every function works on a
// range of rows on the calling thread, allocates nothing, keeps no state and
// never stores outside the rows it is given. Arguments are checked in Go.
#ifndef GOAGNES_KERNELS_AVX2_H
#define GOAGNES_KERNELS_AVX2_H

#include <stdint.h>

// Width in columns of one packed panel of B.
#define GK_PANEL 16

// A counter-based dropout mask; threshold 0 means none (dropout.go has the
// definition of the stream).
typedef struct {
	uint32_t threshold;
	float scale;
	uint32_t key0, key1;
	uint32_t layer;
} gk_drop;

// Activations; the numbers are those of Activation in elementwise.go.
enum { GK_RELU = 1, GK_ELU = 2 };

int gk_supported(void);

void gk_pack(float *bp, const float *b, int64_t ldb, int transposed, int64_t k, int64_t n);
void gk_gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, int a_transposed,
             const float *bp, float *c, int64_t ldc, float alpha, float beta);

void gk_load(float *dst, int64_t dst_stride, const void *src, int half, int64_t src_stride,
             const float *scale, int64_t rows, int64_t cols, uint32_t row0, uint32_t col0,
             gk_drop drop);
void gk_row_sums(float *dst, const void *src, int half, int64_t stride, int64_t rows, int64_t cols,
                 int squares);

void gk_aggregate(float *out, int64_t ldo, int64_t first, int64_t last, const uint32_t *ptr,
                  const uint32_t *src, const void *in, int half, int64_t ldi,
                  int64_t cols, const float *row_scale, const float *col_scale,
                  const float *weight, const float *self, int64_t self_rows, int accumulate);

void gk_epilogue(float *z, int64_t stride, int64_t rows, int64_t cols, const float *bias,
                 int activation, uint32_t row0, gk_drop drop);
void gk_relu_grad(float *g, int64_t g_stride, const float *h, int64_t h_stride, int64_t rows,
                  int64_t cols, float scale);
void gk_elu_grad(float *g, int64_t g_stride, const float *h, int64_t h_stride, int64_t rows,
                 int64_t cols, uint32_t row0, gk_drop drop);
void gk_column_sums(float *dst, const float *a, int64_t stride, int64_t rows, int64_t cols);
void gk_adam(float *p, const float *g, float *m, float *v, int64_t n, float step, float beta1,
             float beta2, float eps, float decay, float inv_sqrt_bias2);

// Attention (attention.go has the definitions). Weights and scores are rows of
// heads elements; x and out have heads blocks of cols columns, out one where mean
// is set.
typedef struct {
	const uint32_t *ptr, *src;
	const float *x;
	int64_t ldx;
	int64_t heads, cols;
	const float *source, *target;
	float *weight, *self;
	float slope, scale;
	int mean;
} gk_attention;

void gk_head_dots(float *dst, const float *x, int64_t ldx, const float *vector, int64_t heads,
                  int64_t cols, int64_t rows);
void gk_attention_weights(const gk_attention *a, int64_t first, int64_t last, gk_drop edges,
                          gk_drop selves);
void gk_attend(float *out, int64_t ldo, const gk_attention *a, int64_t first, int64_t last);
void gk_attention_grad(const float *dz, int64_t ldz, const gk_attention *a, int64_t first,
                       int64_t last, float *dweight, float *dself, float *dtarget);
void gk_attention_back(float *dx, int64_t lddx, const float *dz, int64_t ldz,
                       const gk_attention *a, int64_t first, int64_t last, int64_t targets,
                       const uint32_t *edge, const float *dweight, const float *dself,
                       const float *dtarget, const float *source_vector,
                       const float *target_vector, float *dsource);

#endif
