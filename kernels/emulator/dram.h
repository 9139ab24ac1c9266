/* The DRAM channel: what a rectangle costs in bursts and opened rows. Shared by all cores.
 *
 * A transfer occupies the channel for ceil(bursts * cycles_per_burst) cycles; before them for
 * turnaround_cycles if the channel went the other way; and for opening rows. Consecutive rows lie in
 * consecutive banks, which open rows side by side, so that n rows take ceil(n / banks) rounds of
 * activate_cycles, and of precharge_cycles as many as the conflicts among them take. column_cycles
 * later the last word has arrived; the channel is free by then. A rectangle moves as contiguous runs;
 * the edges of a run count whole bursts. */
#ifndef AUTOTUNE_DRAM_H
#define AUTOTUNE_DRAM_H

#include <math.h>
#include <string.h>

#include "micro/gather.h"

typedef struct {
    double cycles_per_burst;
    int64_t burst_bytes, row_bytes, banks; /* powers of two */
    int64_t activate_cycles, precharge_cycles, column_cycles, turnaround_cycles;
    int row_shift, burst_shift, bank_shift;
} DramNumbers;

/* What the transfers of one DMA instruction were, in one run of its program. */
typedef struct {
    int64_t transfers, bursts, bytes; /* bytes that were wanted */
    int64_t closed, conflicts, turnarounds;
    int64_t data_cycles, row_cycles, turn_cycles;
} Traffic;

/* Memory side of a rectangle. It depends on the clipped sizes and on where the rectangle begins
 * within a burst, so it is kept from one execution to the next of the same instruction. */
typedef struct {
    int64_t size[RANK], phase; /* what it was made for; phase -1: nothing yet */
    int64_t bursts, data_cycles;
    int64_t sweep_bytes;       /* from the first byte to behind the last of one sweep over rows */
    int32_t levels;            /* loops over sweeps, outermost first */
    int64_t count[RANK], stride[RANK]; /* in bytes */
} Shape;

#define SHAPES 16 /* kept per instruction, by phase: as many as there are in a burst of 64 bytes */

typedef struct {
    Shape shape[SHAPES];
    Traffic traffic;
} Stream;

typedef struct {
    int64_t free;  /* when the channel is */
    int32_t way;   /* of the last transfer: 0 none yet, 1 read, 2 write */
    int64_t *open; /* row that each bank holds open, -1 none */
} Channel;

/* Runs of a clipped rectangle: the innermost contiguous stretch and the loops around it. */
typedef struct {
    int64_t bytes;
    int32_t levels;
    int64_t count[RANK], stride[RANK];
} Runs;

static Runs runs_of(const Region *r, const int64_t *size) {
    Runs out;
    int d = r->rank - 1, element = FORMAT_BYTES[r->format];
    out.bytes = element;
    for (; d >= 0; d--) {
        if (size[d] == 1) continue;
        if (r->stride[d] * element != out.bytes) break;
        out.bytes *= size[d];
    }
    out.levels = 0;
    for (int e = 0; e <= d; e++) {
        if (size[e] == 1) continue;
        out.count[out.levels] = size[e];
        out.stride[out.levels++] = r->stride[e] * element;
    }
    return out;
}

/* Bursts of `count` runs that are `stride` bytes apart, by adding up one period of their phases. */
static int64_t bursts_of_row(const DramNumbers *n, int64_t phase, int64_t bytes, int64_t count, int64_t stride) {
    int64_t mask = n->burst_bytes - 1, step = stride & mask, total = 0, period = 0, full = 0;
    int64_t start = phase & mask, at = start;
    do {
        full += (at + bytes + mask) >> n->burst_shift;
        at = (at + step) & mask;
        period++;
    } while (at != start && period < count);
    total = count / period * full;
    for (int64_t i = count % period; i > 0; i--, at = (at + step) & mask)
        total += (at + bytes + mask) >> n->burst_shift;
    return total;
}

static int64_t bursts_of(const DramNumbers *n, const Runs *runs, int level, int64_t phase) {
    if (runs->levels == 0) return bursts_of_row(n, phase, runs->bytes, 1, 0);
    if (level == runs->levels - 1)
        return bursts_of_row(n, phase, runs->bytes, runs->count[level], runs->stride[level]);
    if ((runs->stride[level] & (n->burst_bytes - 1)) == 0)
        return runs->count[level] * bursts_of(n, runs, level + 1, phase);
    int64_t total = 0;
    for (int64_t i = 0; i < runs->count[level]; i++)
        total += bursts_of(n, runs, level + 1, phase + i * runs->stride[level]);
    return total;
}

static int64_t cycles_of(const DramNumbers *n, int64_t bursts) {
    return (int64_t)ceil((double)bursts * n->cycles_per_burst - 1e-9);
}

/* Runs that leave no whole row between them sweep over rows as one. */
RARE void make_shape(const DramNumbers *n, const Region *r, const int64_t *size, int64_t phase, Shape *out) {
    Runs runs = runs_of(r, size);
    memcpy(out->size, size, sizeof out->size);
    out->phase = phase;
    out->bursts = bursts_of(n, &runs, 0, phase);
    out->data_cycles = cycles_of(n, out->bursts);
    out->sweep_bytes = runs.bytes;
    out->levels = runs.levels;
    while (out->levels > 0) {
        int last = out->levels - 1;
        if (runs.stride[last] - out->sweep_bytes >= n->row_bytes) break;
        out->sweep_bytes += (runs.count[last] - 1) * runs.stride[last];
        out->levels--;
    }
    memcpy(out->count, runs.count, sizeof out->count);
    memcpy(out->stride, runs.stride, sizeof out->stride);
}

/* Rows that a transfer found in a closed bank, and in one that had another row open. */
typedef struct {
    int64_t closed, conflicts;
} Misses;

/* Rows `first` to `last` in turn. */
ALWAYS_INLINE void sweep_rows(int64_t *open, int64_t banks, int64_t first, int64_t last, Misses *misses) {
    int64_t checked = last - first < banks ? last : first + banks - 1;
    for (int64_t row = first; row <= checked; row++) {
        int64_t *bank = &open[row & (banks - 1)];
        misses->closed += *bank < 0;
        misses->conflicts += *bank >= 0 && *bank != row;
        *bank = row;
    }
    if (last > checked) {
        misses->conflicts += last - checked;
        for (int64_t row = last - banks + 1; row <= last; row++) open[row & (banks - 1)] = row;
    }
}

static Misses rows_opened(const DramNumbers *n, Channel *channel, const Shape *shape, int64_t address) {
    int64_t trip[RANK] = {0}, end = shape->sweep_bytes - 1;
    Misses misses = {0, 0};
    for (;;) {
        sweep_rows(channel->open, n->banks, address >> n->row_shift, (address + end) >> n->row_shift, &misses);
        int d = shape->levels - 1;
        for (; d >= 0; d--) {
            address += shape->stride[d];
            if (++trip[d] < shape->count[d]) break;
            address -= shape->count[d] * shape->stride[d];
            trip[d] = 0;
        }
        if (d < 0) return misses;
    }
}

/* What a rectangle asks of the channel. */
typedef struct {
    int64_t elements, bursts, data_cycles;
    Misses misses;
} Request;

static Request ask_rectangle(const DramNumbers *n, Channel *channel, const Word *w, const int64_t *size,
                             int64_t elements, int64_t address, Stream *stream) {
    int64_t phase = address & (n->burst_bytes - 1);
    Shape *shape = &stream->shape[(phase >> 2) % SHAPES];
    if (shape->phase != phase || (w->clips && memcmp(shape->size, size, sizeof shape->size) != 0))
        make_shape(n, &w->region, size, phase, shape);
    Request out = {elements, shape->bursts, shape->data_cycles, rows_opened(n, channel, shape, address)};
    return out;
}

/* `bytes` from `address` on; `burst` is the last one that was read, which is not read again. */
static void ask_run(const DramNumbers *n, Channel *channel, int64_t address, int64_t bytes, int64_t *burst,
                    Request *out) {
    int64_t first = address >> n->burst_shift, last = (address + bytes - 1) >> n->burst_shift;
    out->bursts += last - first + (first != *burst);
    *burst = last;
    sweep_rows(channel->open, n->banks, address >> n->row_shift, (address + bytes - 1) >> n->row_shift, &out->misses);
}

/* GATHER: row by row of the rectangle, element by element where those do not lie side by side. */
static Request ask_gather(const DramNumbers *n, Channel *channel, const Region *r, const Loops *at) {
    Request out = {0};
    int last = RANK - 1, bytes = FORMAT_BYTES[r->format];
    while (last > 0 && r->size[last] == 1) last--;
    int64_t trip[RANK] = {0}, coordinate[RANK], burst = -1;
    for (;;) {
        row_coordinates(r, at, trip, coordinate);
        Inside in = row_inside(r, coordinate, r->axis[last], r->hop[last], r->size[last]);
        int64_t count = in.high - in.low, element = count ? first_inside(r, coordinate, last, in.low) : 0;
        /* Of two elements inside, whose distance cannot overflow. */
        int64_t pitch = count > 1 ? r->hop[last] * r->stride[r->axis[last]] : 0;
        out.elements += count;
        if (count && (pitch == 1 || pitch == 0))
            ask_run(n, channel, r->first_byte + element * bytes, (pitch ? count : 1) * bytes, &burst, &out);
        else
            for (int64_t i = 0; i < count; i++)
                ask_run(n, channel, r->first_byte + (element + i * pitch) * bytes, bytes, &burst, &out);
        int d = last - 1;
        for (; d >= 0; d--) {
            if (++trip[d] < r->size[d]) break;
            trip[d] = 0;
        }
        if (d < 0) break;
    }
    out.data_cycles = cycles_of(n, out.bursts);
    return out;
}

/* LOOKUP: what does not depend on the numbers. Every row is a transfer of its own from banks that hold
 * no row open; where rows are no whole bursts, each of its runs begins at the last element of one. All
 * banks are closed behind it. */
static Request ask_lookup(const DramNumbers *n, Channel *channel, const Region *r, const Loops *at) {
    Region row = *r;
    row.coord[0] = row.step[0] = 0;
    row.size[0] = 1;
    Clip c = clip_region(&row, at);
    Request out = {0};
    if (c.elements == 0) return out;
    int64_t bytes = FORMAT_BYTES[r->format], mask = n->burst_bytes - 1, reach = 0;
    int64_t phase = r->stride[0] * bytes & mask ? n->burst_bytes - bytes : clip_offset(&row, &c) * bytes & mask;
    Runs runs = runs_of(&row, c.size);
    for (int d = 0; d < RANK; d++) reach += (c.size[d] - 1) * r->stride[d];
    out.elements = r->size[0] * c.elements;
    out.bursts = r->size[0] * bursts_of(n, &runs, 0, phase);
    out.misses.closed = r->size[0] * (1 + ((reach * bytes) >> n->row_shift));
    out.data_cycles = cycles_of(n, out.bursts);
    for (int64_t bank = 0; bank < n->banks; bank++) channel->open[bank] = -1;
    return out;
}

typedef struct {
    int64_t begin, turn, row, data; /* when the channel was granted; cycles that it then is taken */
} Grant;

/* One transfer that may begin at `ready`. */
static Grant grant_channel(const DramNumbers *n, Channel *channel, const Request *request, int element_bytes,
                           int64_t ready, int writes, Traffic *t) {
    const Misses *misses = &request->misses;
    int turns = channel->way == 2 - writes;
    int64_t rounds = (misses->closed + misses->conflicts + n->banks - 1) >> n->bank_shift;
    int64_t precharges = (misses->conflicts + n->banks - 1) >> n->bank_shift;
    Grant out = {ready > channel->free ? ready : channel->free, turns ? n->turnaround_cycles : 0,
                 rounds * n->activate_cycles + precharges * n->precharge_cycles, request->data_cycles};
    channel->free = out.begin + out.turn + out.row + out.data;
    channel->way = 1 + writes;
    t->transfers++;
    t->bursts += request->bursts;
    t->bytes += request->elements * element_bytes;
    t->closed += misses->closed;
    t->conflicts += misses->conflicts;
    t->turnarounds += turns;
    t->data_cycles += out.data;
    t->row_cycles += out.row;
    t->turn_cycles += out.turn;
    return out;
}

#endif
