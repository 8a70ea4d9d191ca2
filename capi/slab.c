//go:build goagnes_python

/*
 * Releasing slabs from C, with neither Go nor the GIL, and knowing that this
 * process is a forked child.
 */
#define _GNU_SOURCE
#include "goagnes.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "counters.h"

_Static_assert(sizeof(goagnes_slab) == 64, "a slab's header is 64 bytes");

struct goagnes_counters goagnes_counts;

static int forked;

static void note_fork(void) { forked = 1; }

int goagnes_watch_fork(void) {
    static int watching;
    if (watching) return 0;
    watching = 1;
    return pthread_atfork(NULL, NULL, note_fork);
}

int goagnes_in_forked_child(void) { return forked; }

void goagnes_slab_release(void *base) {
    /* A forked child shares no pool with its parent: it never gives back. */
    if (forked) return;
    goagnes_slab *slab = base;
    uint64_t length = slab->length;
    int32_t *wake = (int32_t *)(uintptr_t)slab->wake;
    int32_t before = __atomic_fetch_sub(&slab->refs, 1, __ATOMIC_ACQ_REL);
    if (before == 1) {
        GOAGNES_COUNT(slabs_unmapped);
        munmap(base, length);
    } else if (before == 2 && wake != NULL) {
        __atomic_fetch_add(wake, 1, __ATOMIC_ACQ_REL);
        syscall(SYS_futex, wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    } else if (before <= 0) {
        fprintf(stderr, "goagnes: capi: a slab was released more often than it was held\n");
        abort();
    }
}
