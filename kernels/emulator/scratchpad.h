/* Memory that stands for a core's scratchpad in a run with numbers. */
#ifndef AUTOTUNE_SCRATCHPAD_H
#define AUTOTUNE_SCRATCHPAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* Scratchpads kept for later runs: memory that is new costs more than a small program does. A build
 * that watches its memory keeps none: what lies behind a program's words must not be ours. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARE_LIMIT_BYTES = 0 };
#else
enum { SPARE_LIMIT_BYTES = 64 << 20 };
#endif
enum { HUGE_PAGE_BYTES = 2 << 20 };

/* `elements` floats, or NULL. From two huge pages on it asks for such: strides of a page and more miss
 * the address translation of small ones. */
static float *make_scratchpad(int64_t elements) {
    void *memory = 0;
    size_t bytes = (size_t)elements * sizeof(float);
    int huge = bytes >= 2 * HUGE_PAGE_BYTES;
    if (posix_memalign(&memory, huge ? HUGE_PAGE_BYTES : 64, bytes)) return 0;
#ifdef MADV_HUGEPAGE
    if (huge) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return (float *)memory;
}

#endif
