/* Decoded instructions: what the engine makes of table rows, and every micro-kernel takes. */
#ifndef AUTOTUNE_WORD_H
#define AUTOTUNE_WORD_H

#include <stdint.h>

#define RANK 5    /* dimensions of a rectangle (MAX_RANK of the instruction table) */
#define LEVELS 16 /* loop levels; the last, NO_LEVEL, always has index 0 */

/* Kernels in two versions, chosen by the processor they meet: one wheel serves every x86-64.
 * VERSIONS(name, params, args) makes `name` of the inline function `name_body`. */
#if defined(__x86_64__) && defined(__GNUC__)
#define VERSIONS(NAME, PARAMS, ARGS)                                                      \
    __attribute__((target("avx2,fma"), noinline)) static void NAME##_avx2 PARAMS {         \
        NAME##_body ARGS;                                                                 \
    }                                                                                     \
    __attribute__((noinline)) static void NAME##_base PARAMS { NAME##_body ARGS; }         \
    static inline void NAME PARAMS {                                                      \
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) NAME##_avx2 ARGS; \
        else NAME##_base ARGS;                                                            \
    }
#else
#define VERSIONS(NAME, PARAMS, ARGS) \
    static void NAME PARAMS { NAME##_body ARGS; }
#endif
#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define RARE static __attribute__((noinline, cold))
#define APART static __attribute__((noinline))
#else
#define ALWAYS_INLINE static inline
#define RARE static
#define APART static
#endif
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* Opcodes and units; values as in autotune.isa.table. */
enum { OP_HALT = 0, OP_LOOP = 1, OP_END = 2, OP_WAIT = 3, OP_SIGNAL = 4, OP_MARK = 5,
       OP_CASE = 6, OP_LOAD = 8, OP_STORE = 9, OP_GATHER = 10, OP_LOOKUP = 11, OP_MATMUL = 16, OP_UNARY = 24, OP_BINARY = 25, OP_FMA = 26,
       OP_REDUCE = 27, OP_FILL = 28, OP_MASK = 29, OP_CHAIN = 30, OP_ONLINE = 31, OP_CONVERT = 32, OP_TRANSFORM = 33 };
enum { F4_INPUT, F4_OUTPUT, F2_INPUT, F2_OUTPUT };

/* Rows of a TRANSFORM's tile, as many as columns: as it comes, and as it leaves. */
static inline int rows_taken(int transform) { return transform <= F4_OUTPUT ? 6 : 4; }
static inline int rows_made(int transform) {
    return transform == F4_OUTPUT ? 4 : transform == F2_OUTPUT ? 2 : rows_taken(transform);
}
enum { UNIT_LOAD, UNIT_STORE, UNIT_MATRIX, UNIT_VECTOR, UNIT_CONTROL };
enum { WHEN_NEVER, WHEN_ALWAYS, WHEN_BY_LEVEL };
enum { STAGE_NONE, STAGE_UNARY, STAGE_WITH0, STAGE_WITH1, STAGE_FROM0, STAGE_FROM1, STAGES = 4 };
enum { FORMAT_FP32, FORMAT_BF16, FORMAT_INT8, FORMAT_UINT8, FORMAT_INT32, FORMAT_FP16 };
static const int8_t FORMAT_BYTES[] = {4, 2, 1, 1, 4, 2};

/* A scratchpad address, affine in the loop indices. */
typedef struct {
    int64_t base, step0, step1, slot;
    int32_t level0, level1, turn;
} Operand;

/* Loops over up to four operands after merging; extents of 1 are gone, strides in elements. */
typedef struct {
    int32_t rank;
    int64_t size[RANK];
    int64_t stride[4][RANK];
} Nest;

typedef struct {
    int64_t m, n1, n0, k2, k1, k0;
    int64_t a_m, a_k2, a_k1, a_k0, b_k2, b_k1, b_k0, b_n1, b_n0, c_m, c_n1, c_n0;
    int64_t r_m, r_n1, r_n0; /* of the residual, which is added after the bias */
    int32_t accumulate, epilogue, k_level, bias_axis;
    int32_t a_format, b_format, a_zero, b_zero, has_residual;
} Product;

/* dst = format((src - src_zero) * scale) + dst_zero; `divide`: by the scale. */
typedef struct {
    int32_t dst_format, src_format, divide;
    float scale;
    int64_t src_zero, dst_zero;
} Conversion;

typedef struct {
    int32_t kind, fn;
    float p0, p1;
} Stage;

/* Where a rectangle lies in a tensor: of DRAM (LOAD, STORE, GATHER, LOOKUP) or the one that MASK knows.
 * GATHER: dimension d of the rectangle runs along tensor dimension axis[d], hop[d] a step. */
typedef struct {
    int64_t coord[RANK], step[RANK], extent[RANK], size[RANK], stride[RANK];
    int32_t level[RANK];
    int32_t tensor, rank;
    int32_t format;     /* of the tensor */
    int32_t axis[RANK];
    int64_t hop[RANK];
    int64_t first_byte; /* address of the tensor in DRAM */
} Region;

typedef struct {
    /* sequencing and timing: one cache line */
    int32_t opcode, unit;
    uint8_t waits[4], signals[4]; /* ends with 0 */
    int64_t trips;
    int32_t level, jump; /* LOOP: behind its END. END: its LOOP's body. */
    int64_t cycles;      /* set-up and work; of a DMA set-up alone */
    int64_t bank_cycles; /* lost to bank conflicts; of a DMA the elements per rectangle */
    uint8_t why[4];      /* of each wait: what it is for (SPENT_*) */
    uint8_t again[4];    /* of each wait: earlier ones of the same semaphore */
    int32_t stream;      /* number of a DMA instruction among those of its core, -1 none */
    int32_t forward;     /* signals lead_cycles after its start instead of at its end */
    int64_t lead_cycles;
    /* DMA. The first element inside of the tensor is at `address` plus moves times indices, plus what
     * the dimensions add that have to be clipped in every trip; the others have sizes `settled`. */
    int64_t conflict;    /* ways in which its scratchpad accesses share a bank */
    int32_t line_shift;  /* the scratchpad takes 2^line_shift elements in a cycle */
    int32_t at;          /* place in the stream */
    int32_t moves, clips, move_level[RANK], clip_dim[RANK];
    int64_t address, move[RANK], settled[RANK], settled_elements;
    /* CASE */
    int32_t parameter;
    int64_t low, high;
    /* numbers */
    int32_t fn;
    float p0, p1, scale;
    int32_t format;     /* LOAD, STORE, GATHER, LOOKUP: of the operand */
    int32_t stages;     /* CHAIN: those in use, one at least */
    Operand operand[5]; /* written first: dst lhs rhs; c a b bias r; dst src side0 side1; dst state src;
                         * dst src bias r */
    Nest nest;          /* VECTOR: of the operands; LOAD, STORE, GATHER, LOOKUP: strides of the operand
                         * alone, of a LOOKUP of its numbers too */
    Product product;    /* ONLINE: accumulate and k_level of it */
    Region region;
    Conversion conversion;
    Stage stage[STAGES];
    int32_t transform, biased, adds; /* TRANSFORM; its nest has the extents of src */
} Word;

/* Where the hardware loops stand. */
typedef struct {
    int64_t index[LEVELS], trips[LEVELS], parity[LEVELS];
} Loops;

/* Byte of the scratchpad where an operand begins. */
ALWAYS_INLINE int64_t address_of(const Operand *o, const Loops *at) {
    return o->base + o->step0 * at->index[o->level0] + o->step1 * at->index[o->level1]
         + o->slot * at->parity[o->turn];
}

#endif
