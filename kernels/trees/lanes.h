/* Many rows at a time: a block of rows is ranked column by column, then every tree is answered bottom
 * up for the whole block, each node one comparison and one choice of bytes. */
#ifndef AUTOTUNE_LANES_OF_TREES_H
#define AUTOTUNE_LANES_OF_TREES_H

#include "micro/word.h"
#include "trees/forest.h"

#define FOREST_BLOCK 64 /* rows of a block: bytes of the widest registers */

typedef uint8_t Block[FOREST_BLOCK];
typedef float Lanes[FOREST_BLOCK];

/* Rank a column of a block of values. */
ALWAYS_INLINE void rank_block(const float *threshold, int levels, int nan_left, const float *x, uint8_t *ranks) {
    int32_t rank[FOREST_BLOCK] = {0};
    for (int step = 1 << levels >> 1; step; step >>= 1) {
        const float *at = threshold + step - 1;
        if (nan_left) {
            INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) rank[i] += x[i] >= at[rank[i]] ? step : 0;
        } else {
            INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) rank[i] += x[i] < at[rank[i]] ? 0 : step;
        }
    }
    for (int i = 0; i < FOREST_BLOCK; i++) ranks[i] = (uint8_t)rank[i];
}

/* The number of the leaf that each row of a block reaches in a tree of depth > 0. */
ALWAYS_INLINE const uint8_t *leaves_of_block(const uint16_t *column, const uint8_t *rank, int depth,
                                             const Block *ranks, Block *leaf) {
    const int half = 1 << (depth - 1);
    for (int n = 0; n < half; n++) {
        const uint8_t *r = ranks[column[half - 1 + n]], least = rank[half - 1 + n], left = (uint8_t)(2 * n);
        for (int i = 0; i < FOREST_BLOCK; i++) leaf[n][i] = r[i] >= least ? left + 1 : left;
    }
    for (int nodes = half / 2; nodes; nodes /= 2)
        for (int n = 0; n < nodes; n++) {
            const uint8_t *r = ranks[column[nodes - 1 + n]], least = rank[nodes - 1 + n];
            const uint8_t *left = leaf[2 * n], *right = leaf[2 * n + 1];
            uint8_t *to = leaf[n];
            INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) to[i] = r[i] >= least ? right[i] : left[i];
        }
    return leaf[0];
}

/* Predict a block: x [features] of rows side by side, ranks [columns]. */
ALWAYS_INLINE void predict_block_body(const Forest *f, const Lanes *x, Block *ranks, float *sum) {
    Block leaf[1 << (FOREST_DEPTH - 1)];
    for (int32_t c = 0; c < f->columns; c++)
        rank_block(f->threshold + f->first[c], f->levels[c], f->nan_left[c], x[f->feature[c]], ranks[c]);
    for (int i = 0; i < FOREST_BLOCK; i++) sum[i] = f->base;
    for (int32_t tree = 0; tree < f->trees; tree++) {
        const float *value = f->value + f->leaf[tree];
        if (!f->depth[tree]) {
            for (int i = 0; i < FOREST_BLOCK; i++) sum[i] += value[0];
            continue;
        }
        const int32_t node = f->node[tree];
        const uint8_t *at = leaves_of_block(f->column + node, f->rank + node, f->depth[tree],
                                            (const Block *)ranks, leaf);
        for (int i = 0; i < FOREST_BLOCK; i++) sum[i] += value[at[i]];
    }
}

VERSIONS(predict_block, (const Forest *f, const Lanes *x, Block *ranks, float *sum), (f, x, ranks, sum))

#endif
