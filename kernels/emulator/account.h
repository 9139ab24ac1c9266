/* What a run is summed up to: counts and cycles per instruction, and sums over instructions. */
#ifndef AUTOTUNE_ACCOUNT_H
#define AUTOTUNE_ACCOUNT_H

#include "emulator/dram.h"
#include "emulator/hazard.h"

#define UNITS 4
#define OPCODES 40

/* One instruction in one run. A unit's cycles before and during its instructions are booked on them. */
typedef struct {
    int64_t executions, first, last; /* start of the first one, end of the last one */
    int64_t spent[SPENDINGS];
} Account;

/* Sums over the instructions of a region; all members are int64, in the order of SUMS in outcome.py. */
typedef struct {
    int64_t executed[OPCODES];
    int64_t spent[UNITS][SPENDINGS];
    int64_t waits[UNITS], signals[UNITS], trips, cases;
    int64_t transfers[2], bursts[2], wanted_bytes[2]; /* by direction: read, written */
    int64_t closed[2], conflicts[2], turnarounds[2], data_cycles[2], row_cycles[2], turn_cycles[2];
    int64_t folds, stream_cycles, fill_cycles, macs_issued[MAC_CLASSES], macs_useful[MAC_CLASSES];
    int64_t elements[CLASSES], work, passes, slots;
    int64_t read_bytes[UNITS], written_bytes[UNITS]; /* scratchpad, by unit */
    int64_t padded_bytes;                            /* of what loads wrote, not from DRAM */
    int64_t first, last, peak_bytes;                 /* earliest start, latest end; highest address */
} Sums;

static void add_dma(const Word *w, const Cost *c, const Account *a, const Traffic *t, Sums *out) {
    int writes = w->opcode == OP_STORE;
    int64_t moved = t->bytes / FORMAT_BYTES[w->region.format] * FORMAT_BYTES[w->format];
    out->transfers[writes] += t->transfers;
    out->bursts[writes] += t->bursts;
    out->wanted_bytes[writes] += t->bytes;
    out->closed[writes] += t->closed;
    out->conflicts[writes] += t->conflicts;
    out->turnarounds[writes] += t->turnarounds;
    out->data_cycles[writes] += t->data_cycles;
    out->row_cycles[writes] += t->row_cycles;
    out->turn_cycles[writes] += t->turn_cycles;
    if (writes) {
        out->read_bytes[UNIT_STORE] += moved;
        return;
    }
    out->written_bytes[UNIT_LOAD] += a->executions * c->written_bytes;
    out->padded_bytes += a->executions * c->written_bytes - moved;
}

static void add_work(const Word *w, const Cost *c, int64_t times, Sums *out) {
    out->folds += times * c->folds;
    out->stream_cycles += times * c->stream_cycles;
    out->fill_cycles += times * c->fill_cycles;
    out->macs_issued[c->mac_class] += times * c->macs_issued;
    out->macs_useful[c->mac_class] += times * c->macs_useful;
    for (int k = 0; k < CLASSES; k++) out->elements[k] += times * c->elements[k];
    out->work += times * c->work;
    out->passes += times * c->passes;
    out->slots += times * c->slots;
    out->written_bytes[w->unit] += times * c->written_bytes;
    out->read_bytes[w->unit] += times * c->read_bytes
        + applying(w->product.accumulate, times, c->trips, 0) * c->adding_bytes
        + applying(w->product.epilogue, times, c->trips, 1) * c->ending_bytes;
}

static void add_instruction(const Word *w, const Cost *c, const Account *a, const Stream *stream, Sums *out) {
    int64_t times = a->executions;
    if (!times) return;
    out->executed[w->opcode] += times;
    if (w->unit >= UNITS) return;
    for (int i = 0; i < SPENDINGS; i++) out->spent[w->unit][i] += a->spent[i];
    for (const uint8_t *s = w->waits; *s; s++) out->waits[w->unit] += times;
    for (const uint8_t *s = w->signals; *s; s++) out->signals[w->unit] += times;
    if (a->first < out->first) out->first = a->first;
    if (a->last > out->last) out->last = a->last;
    if (c->peak_bytes > out->peak_bytes) out->peak_bytes = c->peak_bytes;
    if (stream) add_dma(w, c, a, &stream->traffic, out);
    else add_work(w, c, times, out);
}

#endif
