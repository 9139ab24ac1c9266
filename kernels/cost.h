/* What an instruction costs wherever it runs: cycles of matrix and vector unit, scratchpad traffic.
 *
 * These depend on the instruction alone, so they are found once, when a program is loaded, and its
 * totals follow from how often each instruction is executed. */
#ifndef AUTOTUNE_COST_H
#define AUTOTUNE_COST_H

#include "decode.h"

typedef struct {
    int64_t rows, cols, dataflow, matrix_setup_cycles;
    int64_t lanes, vector_setup_cycles, divide_cycles, transcendental_cycles;
    int64_t banks, dma_setup_cycles;
} CostNumbers;

enum { SIMPLE, DIVIDE, TRANSCENDENTAL, CLASSES };
enum { OUTPUT_STATIONARY, WEIGHT_STATIONARY, INPUT_STATIONARY }; /* as spec.DATAFLOWS */

/* Sums over all executions of all instructions; `magnitude` bounds every one of them. */
typedef struct {
    int64_t instructions[5], waits, signals, trips;
    int64_t folds, macs_issued, macs_useful;
    int64_t vector_elements[CLASSES], vector_passes, vector_work; /* elements times cost class */
    int64_t scratchpad_read, scratchpad_written; /* elements; without what stores read */
    int64_t load_elements, peak_elements;
    double magnitude;
} Totals;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t greatest_divisor(int64_t a, int64_t b) {
    while (b) { int64_t rest = a % b; a = b; b = rest; }
    return a;
}

static int cost_class(const Word *w) {
    if (w->opcode == OP_BINARY) return w->fn == BI_DIV ? DIVIDE : w->fn == BI_POW ? TRANSCENDENTAL : SIMPLE;
    if (w->opcode != OP_UNARY) return SIMPLE;
    switch (w->fn) {
    case UN_SQRT: case UN_RSQRT: case UN_RECIPROCAL: return DIVIDE;
    case UN_SIGMOID: case UN_TANH: case UN_ERF: case UN_GELU: case UN_GELU_TANH: case UN_EXP: case UN_LOG:
        return TRANSCENDENTAL;
    default: return SIMPLE;
    }
}

/* Cycles that one pass over an operand takes: its first `lanes` elements in row-major order, spread
 * over word-interleaved banks of which each serves ceil(lanes / banks) words a cycle, so that unit
 * stride never conflicts. Elements that a stride of 0 repeats are read once. */
static int64_t pass_conflict(const CostNumbers *n, const Nest *nest, int operand, int32_t *served) {
    int64_t left = n->lanes, most = 0, trip[RANK] = {0}, take[RANK], at = 0;
    for (int d = nest->rank - 1; d >= 0; d--) {
        take[d] = nest->size[d] < left ? nest->size[d] : left;
        left /= take[d];
        if (nest->stride[operand][d] == 0) take[d] = 1;
    }
    if (nest->rank == 1 && nest->stride[operand][0] <= 1) return 1;
    memset(served, 0, (size_t)n->banks * sizeof *served);
    for (;;) {
        int32_t words = ++served[at & (n->banks - 1)];
        if (words > most) most = words;
        int d = nest->rank - 1;
        for (; d >= 0; d--) {
            at += nest->stride[operand][d];
            if (++trip[d] < take[d]) break;
            at -= take[d] * nest->stride[operand][d];
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
 * counts from cycle 0 and so prints one less for a layer. */
typedef struct {
    int64_t folds, cycles, streamed;
    int64_t first_folds;   /* folds until the first outputs are complete */
    int64_t reads, writes; /* elements of operands, and of partial sums, without those of c itself */
} Mapping;

static Mapping map_product(const CostNumbers *n, const Product *p) {
    int64_t columns = p->n1 * p->n0, depth = p->k2 * p->k1 * p->k0, outputs = p->m * columns;
    int64_t deep = ceil_div(depth, n->rows), across = ceil_div(columns, n->cols);
    Mapping out = {0};
    if (n->dataflow == OUTPUT_STATIONARY) {
        int64_t down = ceil_div(p->m, n->rows);
        Mapping os = {down * across, 0, depth, 1, depth * (across * p->m + down * columns), outputs};
        out = os;
        out.cycles = out.folds * (depth + n->rows + n->cols - 2);
        return out;
    }
    if (n->dataflow == INPUT_STATIONARY) across = ceil_div(p->m, n->cols);
    out.folds = deep * across;
    out.streamed = n->dataflow == WEIGHT_STATIONARY ? p->m : columns;
    out.cycles = out.folds * (out.streamed + 2 * n->rows + n->cols - 2);
    out.first_folds = deep;
    out.reads = (deep - 1) * outputs + (n->dataflow == WEIGHT_STATIONARY ? depth * (columns + across * p->m)
                                                                        : depth * (p->m + across * columns));
    out.writes = deep * outputs;
    return out;
}

/* Bias, activation and accumulation happen on the drain and take no time. */
static void cost_product(const CostNumbers *n, Word *w, int64_t executions, int64_t trips, Totals *t) {
    const Product *p = &w->product;
    Mapping map = map_product(n, p);
    int64_t columns = p->n1 * p->n0, depth = p->k2 * p->k1 * p->k0;
    int64_t last = trips > 0 ? executions / trips : 0; /* executions in the last (or first) trip */
    int64_t adding = p->accumulate == WHEN_ALWAYS ? executions
                   : p->accumulate == WHEN_BY_LEVEL ? executions - last : 0;
    int64_t ending = p->epilogue == WHEN_ALWAYS ? executions : p->epilogue == WHEN_BY_LEVEL ? last : 0;
    int64_t bias = p->bias_axis == 1 ? p->m : p->bias_axis == 2 ? p->n0 : 0;
    w->cycles = n->matrix_setup_cycles + map.cycles;
    t->folds += executions * map.folds;
    t->macs_issued += executions * map.folds * n->rows * n->cols * map.streamed;
    t->macs_useful += executions * p->m * columns * depth;
    t->scratchpad_read += executions * map.reads + adding * p->m * columns + ending * bias;
    t->scratchpad_written += executions * map.writes;
}

static void cost_vector(const CostNumbers *n, Word *w, int64_t executions, int32_t *served, Totals *t) {
    static const int reads[] = {1, 2, 3, 1, 0, 0}; /* UNARY to MASK: operands read */
    const int64_t cycles[CLASSES] = {1, n->divide_cycles, n->transcendental_cycles};
    int kind = cost_class(w), operands = w->opcode == OP_BINARY || w->opcode == OP_FMA ? 3
             : w->opcode == OP_UNARY || w->opcode == OP_REDUCE ? 2 : 1;
    int64_t elements = elements_of(w->nest.size, w->nest.rank), passes = ceil_div(elements, n->lanes);
    int64_t conflict = 1, each = cycles[kind] > 1 ? cycles[kind] : 1, written = elements;
    for (int o = 0; o < operands; o++) {
        int64_t ways = pass_conflict(n, &w->nest, o, served);
        if (ways > conflict) conflict = ways;
    }
    if (w->opcode == OP_REDUCE)
        for (int d = 0; d < w->nest.rank; d++) if (w->nest.stride[0][d] == 0) written /= w->nest.size[d];
    w->cycles = n->vector_setup_cycles + passes * each;
    w->bank_cycles = passes * each * (conflict - 1);
    t->vector_elements[kind] += executions * elements;
    t->vector_work += executions * elements * each;
    t->vector_passes += executions * passes;
    t->scratchpad_read += executions * elements * reads[w->opcode - OP_UNARY]
                        + (w->opcode == OP_REDUCE && w->p1 != 0.0f ? executions * written : 0);
    t->scratchpad_written += executions * written;
}

/* Elements arrive in the order of the tensor; the stride between neighbours decides how many of a
 * scratchpad line's worth meet in one bank. */
static void cost_dma(const CostNumbers *n, Word *w, int64_t executions, Totals *t) {
    int d = RANK - 1;
    while (d > 0 && w->region.size[d] == 1) d--;
    int64_t stride = w->nest.stride[0][d], ways = stride ? greatest_divisor(stride, n->banks) : 1;
    int64_t elements = elements_of(w->region.size, RANK);
    w->cycles = n->dma_setup_cycles;
    w->bank_cycles = elements;
    w->conflict = ways < w->region.size[d] ? ways : w->region.size[d];
    if (w->opcode == OP_STORE) return;
    t->load_elements += executions * elements;
    t->scratchpad_written += executions * elements;
}

/* Largest number any sum above can reach with this instruction, in floating point. */
static double bound_of(const CostNumbers *n, const Word *w, double executions) {
    double work = 1;
    const Product *p = &w->product;
    if (w->opcode == OP_MATMUL)
        work = ((double)p->m + 2 * n->rows + n->cols) * ((double)p->n1 * p->n0 + 2 * n->rows + n->cols)
             * ((double)p->k2 * p->k1 * p->k0 + 2 * n->rows + n->cols);
    else if (w->unit == UNIT_VECTOR || w->unit == UNIT_LOAD || w->unit == UNIT_STORE)
        for (int d = 0; d < w->nest.rank; d++) work *= (double)w->nest.size[d];
    if (w->unit == UNIT_VECTOR) work *= 1.0 + n->divide_cycles + n->transcendental_cycles;
    if (w->unit == UNIT_LOAD || w->unit == UNIT_STORE) work *= (double)n->banks;
    work += (double)(n->dma_setup_cycles + n->matrix_setup_cycles + n->vector_setup_cycles);
    return executions * work;
}

/* One more than the highest element that an operand reaches over all trips. */
static int64_t operand_reach(const Word *w, int operand, const Loops *trips) {
    const Operand *o = &w->operand[operand];
    const Product *p = &w->product;
    int64_t reach = o->base + 1, a = o->step0 * (trips->trips[o->level0] - 1);
    int64_t b = o->step1 * (trips->trips[o->level1] - 1);
    reach += (a > 0 ? a : 0) + (b > 0 ? b : 0) + (trips->index[o->turn] > 1 ? o->slot : 0);
    if (w->opcode != OP_MATMUL) {
        for (int d = 0; d < w->nest.rank; d++) reach += (w->nest.size[d] - 1) * w->nest.stride[operand][d];
        return reach;
    }
    int64_t k2 = p->k2 - 1, k1 = p->k1 - 1, k0 = p->k0 - 1, m = p->m - 1, n1 = p->n1 - 1, n0 = p->n0 - 1;
    switch (operand) {
    case 0: return reach + m * p->c_m + n1 * p->c_n1 + n0 * p->c_n0;
    case 1: return reach + m * p->a_m + k2 * p->a_k2 + k1 * p->a_k1 + k0 * p->a_k0;
    case 2: return reach + k2 * p->b_k2 + k1 * p->b_k1 + k0 * p->b_k0 + n1 * p->b_n1 + n0 * p->b_n0;
    default: return p->bias_axis == 0 ? 0 : reach + (p->bias_axis == 1 ? m : n0);
    }
}

static void cost_word(const CostNumbers *n, Word *w, int64_t executions, const Loops *trips, int operands,
                      int32_t *served, Totals *t) {
    switch (w->unit) {
    case UNIT_MATRIX:
        if (w->opcode == OP_MATMUL) cost_product(n, w, executions, trips->trips[w->product.k_level], t);
        break;
    case UNIT_VECTOR:
        if (w->opcode >= OP_UNARY && w->opcode <= OP_MASK) cost_vector(n, w, executions, served, t);
        break;
    case UNIT_LOAD: case UNIT_STORE:
        if (w->opcode == OP_LOAD || w->opcode == OP_STORE) cost_dma(n, w, executions, t);
        break;
    }
    for (int o = 0; o < operands; o++) {
        int64_t reach = operand_reach(w, o, trips);
        if (reach > t->peak_elements) t->peak_elements = reach;
    }
}

/* Costs of a core's words; adds to the totals. Returns 0 when they would not fit 63 bits. Within
 * `loops`, `trips` are those of the open loops and `index` how often each begins one. */
static int cost_stream(const CostNumbers *n, const Layout *layouts, Word *words, int64_t count,
                       int32_t *served, Totals *t) {
    Loops loops;
    int64_t executions[LEVELS] = {1};
    int depth = 0;
    for (int i = 0; i < LEVELS; i++) loops.trips[i] = loops.index[i] = 1;
    for (int64_t i = 0; i < count; i++) {
        Word *w = &words[i];
        const Layout *l = &layouts[w->opcode];
        int64_t times = executions[depth];
        if (w->opcode == OP_HALT || w->opcode == OP_MARK) continue;
        if (w->opcode == OP_END) { depth--; continue; }
        if (w->opcode == OP_LOOP) {
            if (!w->trips) { i = w->jump - 1; continue; }
            if ((double)times * (double)w->trips > 1e12) return 0;
            loops.trips[w->level] = w->trips;
            executions[++depth] = loops.index[w->level] = times * w->trips;
            t->trips += executions[depth];
            continue;
        }
        t->magnitude += bound_of(n, w, (double)times);
        if (t->magnitude > 4e18) return 0;
        t->instructions[w->unit] += times;
        for (const uint8_t *s = w->waits; *s; s++) t->waits += times;
        for (const uint8_t *s = w->signals; *s; s++) t->signals += times;
        int operands = 0;
        while (operands < 4 && l->at[AT_OPERAND + operands] >= 0) operands++;
        cost_word(n, w, times, &loops, operands, served, t);
    }
    return 1;
}

#endif
