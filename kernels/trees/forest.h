/* Trees of a trained model, packed for prediction: one row by walking, many rows side by side.
 *
 * A column is a feature together with where its NaN goes. Its sorted thresholds turn a value into a rank:
 * how many of them the value reaches. A node sends a row right if the rank of the node's column is at
 * least the node's own, so that eight bits stand for each value and each threshold. Trees are padded to
 * complete ones in heap order: a leaf above the last level stands there once for each path below it.
 * The sum starts at the base and adds tree by tree in float32, as XGBoost does: the bits are the same. */
#ifndef AUTOTUNE_FOREST_H
#define AUTOTUNE_FOREST_H

#include <stdint.h>

#define FOREST_DEPTH 8  /* a leaf's number in its tree has eight bits */
#define FOREST_LEVELS 8 /* steps of a search among the thresholds of a column: a rank has eight bits */
#define FOREST_COLUMNS 4096 /* ranks of a row that fit on a stack */

typedef struct {
    int32_t features, columns, trees;
    float base;
    const int32_t *feature;     /* [columns] */
    const uint8_t *nan_left;    /* [columns] 1 where NaN goes left */
    const uint8_t *levels;      /* [columns] it has 2^levels - 1 thresholds, the last ones infinite */
    const int32_t *first;       /* [columns] its first threshold */
    const float *threshold;     /* ascending within a column */
    const uint8_t *depth;       /* [trees] */
    const int32_t *node;        /* [trees] first of 2^depth - 1 nodes in heap order */
    const int32_t *leaf;        /* [trees] first of 2^depth leaves */
    const uint16_t *column;     /* [nodes] */
    const uint8_t *rank;        /* [nodes] */
    const float *value;         /* [leaves] */
} Forest;

/* How many thresholds x reaches: none for NaN where NaN goes left, else all. */
static inline uint8_t forest_rank(const float *threshold, int levels, int nan_left, float x) {
    int rank = 0;
    if (nan_left) {
        for (int step = 1 << levels >> 1; step; step >>= 1)
            rank += -(x >= threshold[rank + step - 1]) & step;
    } else {
        for (int step = 1 << levels >> 1; step; step >>= 1)
            rank += -!(x < threshold[rank + step - 1]) & step;
    }
    return (uint8_t)rank;
}

/* Walk one row of ranks [columns]: four trees at a time, for the processor to do side by side. */
static inline float forest_walk(const Forest *f, const uint8_t *ranks) {
    float sum = f->base;
    int32_t tree = 0;
    for (; tree + 4 <= f->trees; tree += 4) {
        const uint8_t *depth = f->depth + tree;
        const int32_t *node = f->node + tree, *leaf = f->leaf + tree;
        if (depth[0] == depth[1] && depth[0] == depth[2] && depth[0] == depth[3]) {
            uint32_t at[4] = {1, 1, 1, 1};
            for (int level = 0; level < depth[0]; level++)
                for (int i = 0; i < 4; i++) {
                    const int32_t n = node[i] + (int32_t)at[i] - 1;
                    at[i] = 2 * at[i] + (ranks[f->column[n]] >= f->rank[n]);
                }
            for (int i = 0; i < 4; i++) sum += f->value[leaf[i] + (int32_t)at[i] - (1 << depth[0])];
        } else {
            for (int i = 0; i < 4; i++) {
                uint32_t at = 1;
                for (int level = 0; level < depth[i]; level++) {
                    const int32_t n = node[i] + (int32_t)at - 1;
                    at = 2 * at + (ranks[f->column[n]] >= f->rank[n]);
                }
                sum += f->value[leaf[i] + (int32_t)at - (1 << depth[i])];
            }
        }
    }
    for (; tree < f->trees; tree++) {
        uint32_t at = 1;
        for (int level = 0; level < f->depth[tree]; level++) {
            const int32_t n = f->node[tree] + (int32_t)at - 1;
            at = 2 * at + (ranks[f->column[n]] >= f->rank[n]);
        }
        sum += f->value[f->leaf[tree] + (int32_t)at - (1 << f->depth[tree])];
    }
    return sum;
}

/* Predict one row of features. */
static inline float forest_row(const Forest *f, const float *x) {
    uint8_t ranks[FOREST_COLUMNS];
    for (int32_t c = 0; c < f->columns; c++)
        ranks[c] = forest_rank(f->threshold + f->first[c], f->levels[c], f->nan_left[c], x[f->feature[c]]);
    return forest_walk(f, ranks);
}

#endif
