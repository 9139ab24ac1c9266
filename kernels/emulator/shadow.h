/* Shadow memory of the race check: who touched each word last, and whether a new access comes too early.
 *
 * Instruction k of a core's replay has stamp 2k; what a forwarding MATMUL does to c has 2k - 1, so that
 * its signal can order c without a, b, bias and r. An access is ordered behind another one of stamp s of
 * unit u where its own unit has seen a stamp of u of s or more. */
#ifndef AUTOTUNE_SHADOW_H
#define AUTOTUNE_SHADOW_H

#include "micro/gather.h"

#define ACTORS UNIT_CONTROL        /* units that touch memory */
#define ALL_SEEN (INT32_MAX >> 2)  /* above every stamp */

enum { RACE_RAW, RACE_WAR, RACE_WAW };

/* Elements that an operand is made of: loops over strides that ascend, the innermost first, no element
 * twice where that can be told from the strides. */
typedef struct {
    int32_t rank, bytes;
    int64_t size[RANK], stride[RANK];
} Pattern;

/* Per word of a scratchpad or tensor; 0: none. */
typedef struct {
    int32_t *write;            /* last write of this core: 4 * stamp + unit */
    int32_t *read[ACTORS];     /* last read of each of its units: stamp; NULL: it never reads here */
    int32_t *writer, *reader;  /* first access of any core: place + 1; NULL: this core alone */
} Shadow;

/* A place is an instruction's number among those of all cores. */
typedef struct {
    int32_t kind, memory, first, second; /* memory: a tensor's number, -1 scratchpad */
    int64_t word;
} Finding;

typedef struct {
    Finding *rows;
    int64_t count, limit;
    const int32_t *places; /* of this core's instructions, by half their stamp */
    int64_t touched;       /* words looked at */
} Findings;

/* One access of one instruction. */
typedef struct {
    const Shadow *shadow;
    const Pattern *pattern;
    int64_t first_byte;
    int32_t memory, unit, stamp, writes;
    int32_t place, lowest, count; /* of the instruction; of this core's first; instructions of the core */
    int32_t seen[ACTORS];
    int32_t pending; /* units that have done more than is seen, as bits */
    Findings *found;
} Touch;

/* Sorts dimensions by stride and joins those that overlap or touch: a window that slides over a row is
 * one range. Exact: the elements stay the same. */
static Pattern pattern_of(int dims, const int64_t *size, const int64_t *stride, int bytes) {
    Pattern p = {0};
    for (int d = 0; d < dims; d++) {
        if (size[d] == 1 || stride[d] == 0) continue;
        int at = p.rank++;
        for (; at > 0 && p.stride[at - 1] > stride[d]; at--) {
            p.size[at] = p.size[at - 1];
            p.stride[at] = p.stride[at - 1];
        }
        p.size[at] = size[d];
        p.stride[at] = stride[d];
    }
    if (p.rank == 0) p = (Pattern){1, 0, {1}, {1}};
    int last = 0;
    for (int d = 1; d < p.rank; d++) {
        int64_t hop = p.stride[d] / p.stride[last];
        if (p.stride[d] % p.stride[last] == 0 && hop <= p.size[last]) {
            p.size[last] += (p.size[d] - 1) * hop;
        } else {
            last++;
            p.size[last] = p.size[d];
            p.stride[last] = p.stride[d];
        }
    }
    p.rank = last + 1;
    p.bytes = bytes;
    return p;
}

static void add_finding(const Touch *t, int kind, int32_t first, int64_t word) {
    Findings *f = t->found;
    for (int64_t i = 0; i < f->count; i++) {
        const Finding *x = &f->rows[i];
        if (x->kind == kind && x->memory == t->memory && x->first == first && x->second == t->place) return;
    }
    if (f->count == f->limit) return;
    f->rows[f->count++] = (Finding){kind, t->memory, first, t->place, word};
}

static int is_foreign(const Touch *t, int32_t place) {
    return place && (uint32_t)(place - 1 - t->lowest) >= (uint32_t)t->count;
}

/* Names every access that a row of this one comes too early for. */
static void report_row(const Touch *t, int64_t first, int64_t n, int64_t step) {
    const Shadow *s = t->shadow;
    for (int64_t word = first; n > 0; n--, word += step) {
        int32_t write = s->write[word];
        if (write >> 2 > t->seen[write & 3])
            add_finding(t, t->writes ? RACE_WAW : RACE_RAW, t->found->places[((write >> 2) + 1) / 2], word);
        for (int u = 0; t->writes && u < ACTORS; u++)
            if (s->read[u] && s->read[u][word] > t->seen[u])
                add_finding(t, RACE_WAR, t->found->places[(s->read[u][word] + 1) / 2], word);
        if (!s->writer) continue;
        if (is_foreign(t, s->writer[word]))
            add_finding(t, t->writes ? RACE_WAW : RACE_RAW, s->writer[word] - 1, word);
        if (t->writes && is_foreign(t, s->reader[word])) add_finding(t, RACE_WAR, s->reader[word] - 1, word);
    }
}

ALWAYS_INLINE int late_writes(const int32_t *write, int64_t n, int64_t step, const int32_t *seen) {
    int32_t l0 = seen[0] << 2 | 3, l1 = seen[1] << 2 | 3, l2 = seen[2] << 2 | 3, l3 = seen[3] << 2 | 3;
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t w = write[i * step], odd = w & 1;
        bad |= w > (w & 2 ? (odd ? l3 : l2) : (odd ? l1 : l0));
    }
    return bad;
}

ALWAYS_INLINE int late_reads(const int32_t *read, int64_t n, int64_t step, int32_t seen) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= read[i * step] > seen;
    return bad;
}

ALWAYS_INLINE int foreign(const int32_t *place, int64_t n, int64_t step, uint32_t lowest, uint32_t count) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t p = place[i * step];
        bad |= (p != 0) & ((uint32_t)p - 1u - lowest >= count);
    }
    return bad;
}

ALWAYS_INLINE void fill_stamps(int32_t *to, int64_t n, int64_t step, int32_t stamp) {
    for (int64_t i = 0; i < n; i++) to[i * step] = stamp;
}

/* The first access stays: whoever else comes races with it already. */
ALWAYS_INLINE void fill_places(int32_t *to, int64_t n, int64_t step, int32_t place) {
    for (int64_t i = 0; i < n; i++) to[i * step] = to[i * step] ? to[i * step] : place + 1;
}

ALWAYS_INLINE void touch_words(const Touch *t, int64_t first, int64_t n, int64_t step) {
    const Shadow *s = t->shadow;
    t->found->touched += n;
    int bad = t->pending && late_writes(s->write + first, n, step, t->seen);
    for (int u = 0; t->writes && u < ACTORS; u++)
        if (t->pending >> u & 1 && s->read[u]) bad |= late_reads(s->read[u] + first, n, step, t->seen[u]);
    if (s->writer) {
        bad |= foreign(s->writer + first, n, step, (uint32_t)t->lowest, (uint32_t)t->count);
        if (t->writes) bad |= foreign(s->reader + first, n, step, (uint32_t)t->lowest, (uint32_t)t->count);
    }
    if (bad) report_row(t, first, n, step);
    if (t->writes) fill_stamps(s->write + first, n, step, t->stamp << 2 | t->unit);
    else fill_stamps(s->read[t->unit] + first, n, step, t->stamp);
    if (s->writer) fill_places((t->writes ? s->writer : s->reader) + first, n, step, t->place);
}

/* One constant step for the loops above to be vectorised by. */
ALWAYS_INLINE void touch_row(const Touch *t, int64_t first, int64_t n, int64_t step) {
    if (step == 1) touch_words(t, first, n, 1);
    else touch_words(t, first, n, step);
}

/* Elements of a row to words: those that share one with its neighbours count once. */
ALWAYS_INLINE void touch_elements(const Touch *t, int64_t byte, int64_t n, int64_t stride, int bytes) {
    int64_t step = stride * bytes;
    if (stride == 1) touch_row(t, byte >> 2, ((byte + (n - 1) * bytes) >> 2) - (byte >> 2) + 1, 1);
    else if (step % 4 == 0) touch_row(t, byte >> 2, n, step / 4);
    else for (int64_t i = 0; i < n; i++) touch_row(t, (byte + i * step) >> 2, 1, 1);
}

ALWAYS_INLINE void touch_pattern_body(const Touch *t) {
    const Pattern *p = t->pattern;
    int64_t trip[RANK] = {0}, offset = 0;
    int d;
    do {
        touch_elements(t, t->first_byte + offset * p->bytes, p->size[0], p->stride[0], p->bytes);
        for (d = 1; d < p->rank; d++) {
            offset += p->stride[d];
            if (++trip[d] < p->size[d]) break;
            offset -= p->size[d] * p->stride[d];
            trip[d] = 0;
        }
    } while (d < p->rank);
}

VERSIONS(touch_pattern, (const Touch *t), (t))

#endif
