/* Micro-kernels of decoded instructions, as the native executor calls them: operands[0] is the Word,
 * behind it stand the places of its operands in the order of Word.operand, of a transfer its tensor
 * too. They are compiled ahead, for every instruction there is and for machines without LLVM. */
#ifndef AUTOTUNE_WORDS_H
#define AUTOTUNE_WORDS_H

#include <stdlib.h>

#include "micro/decode.h"
#include "micro/execute.h"

/* What the product of one thread packs into; lives as long as the thread's process. */
static float *workspace(void) {
    static __thread float *own = 0;
    if (!own && !(own = aligned_alloc(64, (NARROW_WORKSPACE * sizeof *own + 63) / 64 * 64))) abort();
    return own;
}

/* Numbers: where the loop of BY_LEVEL stands, and its last trip. */
static void word_product(char **operands, const int64_t *numbers) {
    const Word *w = (const Word *)operands[0];
    const Product *p = &w->product;
    const float *bias = (const float *)operands[4];
    int by_level = p->accumulate == WHEN_BY_LEVEL, ends_by_level = p->epilogue == WHEN_BY_LEVEL;
    Drain drain = {
        .adds = by_level ? numbers[0] != 0 : p->accumulate == WHEN_ALWAYS,
        .ends = ends_by_level ? numbers[0] == numbers[1] : p->epilogue == WHEN_ALWAYS,
        .scale = w->scale,
        .row_bias = p->bias_axis == 1 ? bias : 0,
        .col_bias = p->bias_axis == 2 ? bias : 0,
        .residual = p->has_residual ? (const float *)operands[5] : 0,
        .fn = w->fn, .p0 = w->p0, .p1 = w->p1,
    };
    if (p->a_format == FORMAT_FP32)
        gemm(p, &drain, (const float *)operands[2], (const float *)operands[3], (float *)operands[1],
             workspace());
    else
        gemm_narrow(p, &drain, operands[2], operands[3], (float *)operands[1], workspace());
}

static void word_elementwise(char **operands, const int64_t *numbers) {
    (void)numbers;
    elementwise((const Word *)operands[0], (float *)operands[1], (const float *)operands[2],
                (const float *)operands[3]);
}

static void word_reduction(char **operands, const int64_t *numbers) {
    (void)numbers;
    reduction((const Word *)operands[0], (float *)operands[1], (const float *)operands[2]);
}

static void word_chain(char **operands, const int64_t *numbers) {
    (void)numbers;
    chain((const Word *)operands[0], (float *)operands[1], (const float *)operands[2],
          (const float *)operands[3], (const float *)operands[4]);
}

/* Numbers as of word_product. */
static void word_online(char **operands, const int64_t *numbers) {
    const Word *w = (const Word *)operands[0];
    int when = w->product.accumulate;
    online(w, (float *)operands[1], (float *)operands[2], (const float *)operands[3],
           when == WHEN_BY_LEVEL ? numbers[0] != 0 : when == WHEN_ALWAYS);
}

static void word_conversion(char **operands, const int64_t *numbers) {
    const Word *w = (const Word *)operands[0];
    (void)numbers;
    convert_nest(&w->conversion, &w->nest, operands[1], operands[2]);
}

static void word_transform(char **operands, const int64_t *numbers) {
    (void)numbers;
    transform((const Word *)operands[0], (float *)operands[1], (const float *)operands[2],
              (const float *)operands[3], (const float *)operands[4]);
}

/* A rectangle's coordinates are the numbers: its word takes dimension d from loop d. */
static Loops coordinates_of(const int64_t *numbers) {
    Loops at = {{0}, {0}, {0}};
    for (int d = 0; d < RANK; d++) at.index[d] = numbers[d];
    return at;
}

static void word_load(char **operands, const int64_t *numbers) {
    Loops at = coordinates_of(numbers);
    load_rectangle((const Word *)operands[0], &at, (float *)operands[1], operands[2]);
}

static void word_gather(char **operands, const int64_t *numbers) {
    Loops at = coordinates_of(numbers);
    gather((const Word *)operands[0], &at, (float *)operands[1], operands[2]);
}

static void word_lookup(char **operands, const int64_t *numbers) {
    Loops at = coordinates_of(numbers);
    lookup((const Word *)operands[0], &at, operands[1], (const float *)operands[2], operands[3]);
}

static void word_store(char **operands, const int64_t *numbers) {
    Loops at = coordinates_of(numbers);
    store_rectangle((const Word *)operands[0], &at, (const float *)operands[1], operands[2]);
}

static void word_mask(char **operands, const int64_t *numbers) {
    Loops at = coordinates_of(numbers);
    mask_rectangle((const Word *)operands[0], &at, (float *)operands[1]);
}

#endif
