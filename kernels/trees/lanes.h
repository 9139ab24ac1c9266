/* Many rows at a time: a block of rows is ranked column by column, then each tree is answered bottom up
 * for all of its rows, a node one comparison and one choice of bytes. */
#ifndef AUTOTUNE_LANES_OF_TREES_H
#define AUTOTUNE_LANES_OF_TREES_H

#include "micro/word.h"
#include "trees/forest.h"

#define FOREST_BLOCK 64 /* rows of a block */

typedef float Lanes[FOREST_BLOCK];
typedef uint8_t Block[FOREST_BLOCK];

/* Rank a column of a block of values; no branch, for half of the comparisons would be guessed wrong. */
ALWAYS_INLINE void rank_block(const float *threshold, int levels, int nan_left, const float *x, uint8_t *ranks) {
    int32_t rank[FOREST_BLOCK] = {0};
    for (int step = 1 << levels >> 1; step; step >>= 1) {
        const float *at = threshold + step - 1;
        if (nan_left) {
            INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) rank[i] += -(x[i] >= at[rank[i]]) & step;
        } else {
            INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) rank[i] += -!(x[i] < at[rank[i]]) & step;
        }
    }
    for (int i = 0; i < FOREST_BLOCK; i++) ranks[i] = (uint8_t)rank[i];
}

/* Number, in leaf[0], the leaf of a tree of depth > 0 that each row of a block reaches. */
ALWAYS_INLINE void number_leaves(const uint16_t *column, const uint8_t *rank, int depth, const Block *ranks,
                                 Block *leaf) {
    int nodes = 1 << (depth - 1);
    for (int n = 0; n < nodes; n++) {
        const uint8_t *r = ranks[column[nodes - 1 + n]], least = rank[nodes - 1 + n], left = (uint8_t)(2 * n);
        uint8_t *to = leaf[n];
        INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) to[i] = left + (r[i] >= least);
    }
    while (nodes /= 2)
        for (int n = 0; n < nodes; n++) {
            const uint8_t *r = ranks[column[nodes - 1 + n]], least = rank[nodes - 1 + n];
            const uint8_t *left = leaf[2 * n], *right = leaf[2 * n + 1];
            uint8_t *to = leaf[n];
            INDEPENDENT for (int i = 0; i < FOREST_BLOCK; i++) {
                const uint8_t goes_left = -(r[i] < least);
                to[i] = (left[i] & goes_left) | (right[i] & ~goes_left);
            }
        }
}

/* Predict a block: x [features] of rows side by side, ranks [columns] to work in. */
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
        number_leaves(f->column + f->node[tree], f->rank + f->node[tree], f->depth[tree], (const Block *)ranks, leaf);
        for (int i = 0; i < FOREST_BLOCK; i++) sum[i] += value[leaf[0][i]];
    }
}

VERSIONS(predict_block, (const Forest *f, const Lanes *x, Block *ranks, float *sum), (f, x, ranks, sum))

#endif
