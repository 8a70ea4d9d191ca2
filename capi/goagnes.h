/*
 * What the C and the Go half of package capi agree on.
 *
 * Everything here is internal to the one shared library: nothing but the two
 * module inits is visible outside it. The Go half fills a goagnes_batch; the C
 * half turns it into Python objects.
 */
#ifndef GOAGNES_CAPI_H
#define GOAGNES_CAPI_H

#include <stdint.h>

/* Limits of one delivered minibatch. The Go side refuses what exceeds them. */
#define GOAGNES_MAX_ARRAYS 32
#define GOAGNES_MAX_DIMS 8
#define GOAGNES_MAX_HOPS 64
#define GOAGNES_MAX_NAME 64

/* Results of goagnesNext. */
#define GOAGNES_BATCH 0   /* *out holds a minibatch; its references are the caller's */
#define GOAGNES_TIMEOUT 1 /* nothing yet; ask again */
#define GOAGNES_END 2     /* the epoch is over */
#define GOAGNES_ERROR 3   /* out->error says why; free() it */

/* What goagnesLeave closes. */
#define GOAGNES_STORE 0
#define GOAGNES_LOADER 1
#define GOAGNES_EPOCH 2

/* One array inside a slab: C order, aligned, little-endian. */
typedef struct {
    char name[GOAGNES_MAX_NAME];
    void *data;
    int64_t shape[GOAGNES_MAX_DIMS];
    int32_t ndim;
    int32_t dtype; /* layout.DType */
} goagnes_array;

/*
 * One minibatch. slab carries num_arrays references, one for each array; who
 * receives the struct must drop every one of them with goagnes_slab_release.
 */
typedef struct {
    void *slab;
    char *error;
    int64_t index;
    int64_t batch_size;
    int64_t num_nodes;
    int64_t num_edges;
    int64_t sampled_nodes[GOAGNES_MAX_HOPS + 1];
    int64_t sampled_edges[GOAGNES_MAX_HOPS];
    int32_t num_sampled_nodes; /* entries used */
    int32_t num_sampled_edges;
    int32_t num_arrays;
    int32_t reserved;
    goagnes_array arrays[GOAGNES_MAX_ARRAYS];
} goagnes_batch;

/*
 * The first 64 bytes of a slab. Dropping a reference needs neither Go nor the
 * GIL: the last one unmaps the slab, the last but one (the pool's own is left)
 * wakes whoever waits for a slab.
 */
typedef struct {
    int32_t refs;
    int32_t zero;
    uint64_t length; /* bytes of the whole mapping, this header included */
    uint64_t wake;   /* address of an int32 futex word */
    uint64_t reserved[5];
} goagnes_slab;

void goagnes_slab_release(void *slab);

/* Nonzero in a child of fork(), where Go's threads do not exist. */
int goagnes_in_forked_child(void);

/* Sets RuntimeError and returns nonzero in a forked child. Needs the GIL. */
int goagnes_refuse_fork(void);

/* Implemented in Go (data.go). */
extern int32_t goagnesNext(int64_t loader, int64_t epoch, int64_t timeout_ms, goagnes_batch *out);

/* Closes a store or a loader, or leaves an epoch of one. Twice, or of none, is no error. */
extern void goagnesLeave(int32_t kind, int64_t handle, int64_t epoch);

#endif
