/* What one execution of an instruction costs wherever it runs: cycles of matrix and vector unit,
 * scratchpad traffic. Found once, when a program is loaded. */
#ifndef AUTOTUNE_COST_H
#define AUTOTUNE_COST_H

#include "micro/decode.h"

enum { MACS_FP32, MACS_BF16, MACS_INT8, MAC_CLASSES };

typedef struct {
    int64_t rows, cols, dataflow, matrix_setup_cycles, macs_per_cell[MAC_CLASSES];
    int64_t lanes, vector_setup_cycles, divide_cycles, transcendental_cycles;
    int64_t banks, dma_setup_cycles;
} CostNumbers;

enum { OUTPUT_STATIONARY, WEIGHT_STATIONARY, INPUT_STATIONARY }; /* as spec.DATAFLOWS */

/* Of one execution. A product's reads of c and of what its epilogue takes depend on `When`: they come
 * in `adding` and `ending` of its executions only. */
typedef struct {
    int64_t read_bytes, written_bytes, adding_bytes, ending_bytes; /* scratchpad */
    int64_t folds, stream_cycles, fill_cycles, macs_issued, macs_useful;
    int32_t mac_class;
    int64_t elements[CLASSES], work, passes, slots; /* of the vector unit; work: times cost class */
    int64_t peak_bytes;                             /* highest scratchpad address, plus one */
    int64_t trips;                                  /* of k_level, 0 none */
} Cost;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t greatest_divisor(int64_t a, int64_t b) {
    while (b) { int64_t rest = a % b; a = b; b = rest; }
    return a;
}

static int cost_class(const Word *w) {
    switch (w->opcode) {
    case OP_BINARY: return BINARY_CLASS[w->fn];
    case OP_UNARY: return UNARY_CLASS[w->fn];
    case OP_CONVERT: return w->conversion.divide ? DIVIDE : SIMPLE;
    default: return SIMPLE;
    }
}

/* Cycles that one pass over an operand takes: its first `lanes` elements in row-major order, spread
 * over word-interleaved banks of which each serves ceil(lanes / banks) words a cycle, so that unit
 * stride never conflicts. Elements that a stride of 0 repeats are read once; neighbours of a narrow
 * format share a word. */
static int64_t pass_conflict(const CostNumbers *n, const Nest *nest, int operand, int bytes, int32_t *served) {
    int64_t left = n->lanes, most = 0, trip[RANK] = {0}, take[RANK], at = 0, before = -1;
    const int64_t *stride = nest->stride[operand];
    for (int d = nest->rank - 1; d >= 0; d--) {
        take[d] = nest->size[d] < left ? nest->size[d] : left;
        left /= take[d];
        if (stride[d] == 0) take[d] = 1;
    }
    if (nest->rank == 1 && stride[0] <= 1) return 1;
    memset(served, 0, (size_t)n->banks * sizeof *served);
    for (;;) {
        int64_t word = at * bytes / 4;
        int32_t words = served[word & (n->banks - 1)] += word != before;
        before = word;
        if (words > most) most = words;
        int d = nest->rank - 1;
        for (; d >= 0; d--) {
            at += stride[d];
            if (++trip[d] < take[d]) break;
            at -= take[d] * stride[d];
            trip[d] = 0;
        }
        if (d < 0) break;
    }
    return ceil_div(most, ceil_div(n->lanes, n->banks));
}

static int64_t elements_of(const int64_t *size, int rank) {
    int64_t elements = 1;
    for (int d = 0; d < rank; d++) elements *= size[d];
    return elements;
}

/* How a product runs through the array. The operand that is held is cut into blocks of the array's
 * size, each of which makes a fold; `streamed` vectors pass through it, skewed by one cycle per row
 * and column, so that a fold takes streamed + rows + cols - 2 cycles, and rows more where the held
 * operand has to be shifted in first (`ws`, `is`; `os` starts from zeros). Equal to SCALE-Sim 3, which
 * counts from cycle 0 and so prints one less for a layer. A cell takes `packed` neighbours of the
 * summed dimension at once: cycles are those of a product whose depth is that of the packs. */
typedef struct {
    int64_t folds, cycles, streamed;
    int64_t first_folds;   /* folds until the first outputs are complete */
    int64_t reads;         /* operand elements */
    int64_t partial_reads; /* partial sums, without those that c held before */
    int64_t writes;        /* sums, partial ones too */
} Mapping;

static int mac_class(const Product *p) {
    return p->a_format == FORMAT_FP32 ? MACS_FP32 : p->a_format == FORMAT_BF16 ? MACS_BF16 : MACS_INT8;
}

static Mapping map_product(const CostNumbers *n, const Product *p) {
    int64_t columns = p->n1 * p->n0, depth = p->k2 * p->k1 * p->k0, outputs = p->m * columns;
    int64_t packs = ceil_div(depth, n->macs_per_cell[mac_class(p)]);
    int64_t deep = ceil_div(packs, n->rows), across = ceil_div(columns, n->cols);
    Mapping out = {0};
    if (n->dataflow == OUTPUT_STATIONARY) {
        int64_t down = ceil_div(p->m, n->rows);
        out.folds = down * across;
        out.streamed = packs;
        out.cycles = out.folds * (packs + n->rows + n->cols - 2);
        out.first_folds = 1;
        out.reads = depth * (across * p->m + down * columns);
        out.writes = outputs;
        return out;
    }
    if (n->dataflow == INPUT_STATIONARY) across = ceil_div(p->m, n->cols);
    out.folds = deep * across;
    out.streamed = n->dataflow == WEIGHT_STATIONARY ? p->m : columns;
    out.cycles = out.folds * (out.streamed + 2 * n->rows + n->cols - 2);
    out.first_folds = deep;
    out.reads = n->dataflow == WEIGHT_STATIONARY ? depth * (columns + across * p->m)
                                                 : depth * (p->m + across * columns);
    out.partial_reads = (deep - 1) * outputs;
    out.writes = deep * outputs;
    return out;
}

/* Bias, scale, residual, activation and accumulation happen on the drain and take no time. */
static void cost_product(const CostNumbers *n, Word *w, Cost *c) {
    const Product *p = &w->product;
    Mapping map = map_product(n, p);
    int64_t columns = p->n1 * p->n0, outputs = p->m * columns;
    int64_t bias = p->bias_axis == 1 ? p->m : p->bias_axis == 2 ? p->n0 : 0;
    w->cycles = n->matrix_setup_cycles + map.cycles;
    w->lead_cycles = n->matrix_setup_cycles + map.cycles / map.folds * map.first_folds;
    c->folds = map.folds;
    c->stream_cycles = map.folds * map.streamed;
    c->fill_cycles = map.cycles - c->stream_cycles;
    c->mac_class = mac_class(p);
    c->macs_issued = map.folds * n->rows * n->cols * map.streamed * n->macs_per_cell[c->mac_class];
    c->macs_useful = outputs * p->k2 * p->k1 * p->k0;
    c->read_bytes = map.reads * FORMAT_BYTES[p->a_format] + 4 * map.partial_reads;
    c->written_bytes = 4 * map.writes;
    c->adding_bytes = 4 * outputs;
    c->ending_bytes = 4 * (bias + (p->has_residual ? outputs : 0));
}

/* A pass runs through all stages of the vector unit, which work on neighbouring passes at the same
 * time: it takes as long as the slowest stage. */
static void cost_passes(const CostNumbers *n, Word *w, int64_t elements, const int *kinds, int count, Cost *c) {
    const int64_t cycles[CLASSES] = {1, n->divide_cycles, n->transcendental_cycles};
    int64_t passes = ceil_div(elements, n->lanes), slowest = 1;
    for (int i = 0; i < count; i++) {
        int64_t each = cycles[kinds[i]] > 1 ? cycles[kinds[i]] : 1;
        if (each > slowest) slowest = each;
        c->elements[kinds[i]] += elements;
        c->work += elements * each;
    }
    c->passes = passes;
    c->slots = passes * n->lanes;
    w->cycles = n->vector_setup_cycles + (count - 1) + passes * slowest;
    w->bank_cycles = passes * slowest; /* times what conflicts add, below */
}

/* Operands of a vector instruction that are read or written element by element, as bits. */
static int streamed_operands(const Word *w) { return 1 | operands_read(w, 0, 0); }

/* Stages of a vector instruction by cost class; returns how many. ONLINE runs over its scores twice:
 * for the maximum, then for exponentials and sum. */
static int stage_kinds(const Word *w, int *kinds) {
    if (w->opcode == OP_CHAIN) {
        for (int i = 0; i < w->stages; i++)
            kinds[i] = w->stage[i].kind == STAGE_UNARY ? UNARY_CLASS[w->stage[i].fn] : BINARY_CLASS[w->stage[i].fn];
        return w->stages;
    }
    kinds[0] = w->opcode == OP_ONLINE ? TRANSCENDENTAL : cost_class(w);
    return 1;
}

static void cost_vector(const CostNumbers *n, Word *w, int32_t *served, Cost *c) {
    int kinds[STAGES], operands = streamed_operands(w), count = stage_kinds(w, kinds);
    int64_t elements = elements_of(w->nest.size, w->nest.rank), conflict = 1, written = elements;
    for (int o = 0; o < 4; o++) {
        if (!(operands >> o & 1)) continue;
        int64_t ways = pass_conflict(n, &w->nest, o, operand_bytes(w, o), served);
        if (ways > conflict) conflict = ways;
        if (o) c->read_bytes += elements * operand_bytes(w, o);
    }
    cost_passes(n, w, elements, kinds, count, c);
    if (w->opcode == OP_REDUCE)
        for (int d = 0; d < w->nest.rank; d++) if (w->nest.stride[0][d] == 0) written /= w->nest.size[d];
    c->written_bytes = written * operand_bytes(w, 0);
    if (w->opcode == OP_FMA) c->read_bytes += 4 * elements;
    if (w->opcode == OP_REDUCE && w->p1 != 0.0f) c->read_bytes += 4 * written;
    if (w->opcode == OP_ONLINE) { /* the pass for the maximum; the state of each row */
        int64_t first = ceil_div(elements, n->lanes);
        w->cycles += first;
        w->bank_cycles += first;
        c->passes += first;
        c->slots += first * n->lanes;
        c->elements[SIMPLE] += elements;
        c->work += elements;
        c->read_bytes += 4 * elements;
        c->written_bytes += 12 * w->nest.size[0];
        c->adding_bytes = 8 * w->nest.size[0];
    }
    w->bank_cycles *= conflict - 1;
}

/* Additions of the factored transform of one tile. F(4x4): 12 per line of B, 6 + 6 lines; 10 of A, 6 + 4.
 * F(2x2): 4 per line of either, 4 + 4 and 4 + 2. */
static int64_t tile_additions(int transform) {
    static const int64_t line[] = {12, 10, 4, 4};
    return line[transform] * (rows_taken(transform) + rows_made(transform));
}

/* A pass for each addition, over lanes of tiles and channels; every element comes once and goes once.
 * Bias, residual and function are stages behind the last one. */
static void cost_transform(const CostNumbers *n, Word *w, int32_t *served, Cost *c) {
    int64_t each = elements_of(w->nest.size + 2, 3), additions = tile_additions(w->transform);
    int64_t passes = ceil_div(each, n->lanes), out = operand_extent(w, 0, 0) * operand_extent(w, 0, 1);
    int64_t in = w->nest.size[0] * w->nest.size[1];
    int operands = operands_read(w, 0, 0), behind = w->biased + w->adds + (w->fn != UN_COPY);
    c->passes = passes * additions;
    c->slots = c->passes * n->lanes;
    c->elements[SIMPLE] = c->work = each * additions;
    c->read_bytes = 4 * (in * each + (operands & 4 ? w->nest.size[4] : 0) + (operands & 8 ? out * each : 0));
    c->written_bytes = 4 * out * each;
    w->cycles = n->vector_setup_cycles + behind + c->passes;
    w->bank_cycles = passes * out * (pass_conflict(n, &w->nest, 0, 4, served) - 1)
                   + passes * in * (pass_conflict(n, &w->nest, 1, 4, served) - 1);
}

/* Elements arrive in the order of the tensor; the stride between neighbours decides how many of a
 * scratchpad line's worth meet in one bank. */
static void cost_dma(const CostNumbers *n, Word *w, Cost *c) {
    int d = RANK - 1, bytes = FORMAT_BYTES[w->format];
    while (d > 0 && w->region.size[d] == 1) d--;
    int64_t stride = w->nest.stride[0][d];
    int64_t ways = stride && stride * bytes % 4 == 0 ? greatest_divisor(stride * bytes / 4, n->banks) : 1;
    int64_t elements = elements_of(w->region.size, RANK);
    w->cycles = n->dma_setup_cycles;
    w->bank_cycles = elements;
    w->conflict = ways < w->region.size[d] ? ways : w->region.size[d];
    while (n->banks * 4 / bytes >> (w->line_shift + 1)) w->line_shift++;
    if (w->opcode != OP_STORE) c->written_bytes = elements * bytes;
    if (w->opcode == OP_LOOKUP) c->read_bytes = 4 * w->region.size[0];
}

/* Largest number that any sum can reach by so many executions, in floating point. */
static double bound_of(const CostNumbers *n, const Word *w, double executions) {
    double work = 1;
    const Product *p = &w->product;
    if (w->opcode == OP_MATMUL)
        work = ((double)p->m + 2 * n->rows + n->cols) * ((double)p->n1 * p->n0 + 2 * n->rows + n->cols)
             * ((double)p->k2 * p->k1 * p->k0 + 2 * n->rows + n->cols) * 8 * n->macs_per_cell[mac_class(p)];
    else if (w->unit == UNIT_VECTOR || w->unit == UNIT_LOAD || w->unit == UNIT_STORE)
        for (int d = 0; d < w->nest.rank; d++) work *= (double)w->nest.size[d];
    if (w->unit == UNIT_VECTOR) work *= 32.0 + 2 * n->divide_cycles + 2 * n->transcendental_cycles;
    if (w->unit == UNIT_LOAD || w->unit == UNIT_STORE) work *= 4.0 * (double)n->banks;
    work += (double)(n->dma_setup_cycles + n->matrix_setup_cycles + n->vector_setup_cycles);
    return executions * work;
}

static void cost_word(const CostNumbers *n, Word *w, int32_t *served, Cost *c) {
    switch (w->unit) {
    case UNIT_MATRIX:
        if (w->opcode == OP_MATMUL) cost_product(n, w, c);
        break;
    case UNIT_VECTOR:
        if (w->opcode == OP_TRANSFORM) cost_transform(n, w, served, c);
        else if (w->opcode >= OP_UNARY) cost_vector(n, w, served, c);
        break;
    case UNIT_LOAD: case UNIT_STORE:
        if (w->opcode >= OP_LOAD && w->opcode <= OP_LOOKUP) cost_dma(n, w, c);
        break;
    }
}

/* Costs of a core's words. Returns 0 when executing them would not fit 63 bits. */
static int cost_stream(const CostNumbers *n, Word *words, Cost *costs, int64_t count, int32_t *served) {
    int64_t executions[LEVELS] = {1}, trips[LEVELS] = {0};
    double magnitude = 0;
    int depth = 0;
    for (int64_t i = 0; i < count; i++) {
        Word *w = &words[i];
        if (w->opcode == OP_HALT || w->opcode == OP_MARK) continue;
        if (w->opcode == OP_END) { trips[--depth] = 0; continue; }
        if (w->opcode == OP_LOOP || w->opcode == OP_CASE) {
            if (!w->trips) { i = w->jump - 1; continue; }
            if ((double)executions[depth] * (double)w->trips > 1e12) return 0;
            trips[depth] = w->trips;
            executions[depth + 1] = executions[depth] * w->trips;
            depth++;
            continue;
        }
        w->at = (int32_t)i;
        cost_word(n, w, served, &costs[i]);
        magnitude += bound_of(n, w, (double)executions[depth]);
        if (magnitude > 2e18) return 0;
        if (w->product.k_level < LEVELS - 1) costs[i].trips = trips[w->product.k_level];
    }
    return 1;
}

#endif
