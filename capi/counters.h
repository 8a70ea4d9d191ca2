/*
 * Counts of what the data plane hands out and gets back, for leak tests and
 * statistics. Relaxed atomics: exact once the threads involved have finished.
 */
#ifndef GOAGNES_COUNTERS_H
#define GOAGNES_COUNTERS_H

#include <stdint.h>

struct goagnes_counters {
    int64_t batches;        /* minibatches handed to Python */
    int64_t tensors_made;   /* Tensor objects created */
    int64_t tensors_freed;  /* and destroyed */
    int64_t exports_made;   /* DLPack capsules created */
    int64_t exports_freed;  /* and given back by their consumer */
    int64_t slabs_unmapped; /* slabs whose last reference went in C */
};

extern struct goagnes_counters goagnes_counts;

#define GOAGNES_COUNT(field) __atomic_fetch_add(&goagnes_counts.field, 1, __ATOMIC_RELAXED)
#define GOAGNES_READ(field) __atomic_load_n(&goagnes_counts.field, __ATOMIC_RELAXED)

int goagnes_watch_fork(void);

#endif
