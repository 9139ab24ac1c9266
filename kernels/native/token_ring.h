/* A number that goes round the threads of a pool: how long until one core sees what another one wrote. */
#ifndef AUTOTUNE_TOKEN_RING_H
#define AUTOTUNE_TOKEN_RING_H

#include "native/thread_pool.h"

#define RING_NS 1000000 /* until a thread that does not answer is taken for late */
#define RING_LOOKS 256  /* between two looks at the clock */

typedef struct {
    _Atomic uint32_t turn; /* hops so far */
    char pad[LINE - sizeof(uint32_t)];
    uint32_t threads, rounds;
    int64_t spent_ns; /* of all rounds but the first; 0 if a thread was late */
} Ring;

/* Wait for a turn; 0 if it does not come, or the job is over. */
static int await_turn(Pool *pool, Ring *ring, uint32_t turn) {
    int64_t begin = 0;
    for (uint32_t looks = 1;; looks++) {
        if (atomic_load_explicit(&ring->turn, memory_order_acquire) == turn) return 1;
        if (looks % RING_LOOKS) continue;
        if (reached(&pool->ended, pool->end, memory_order_acquire)) return 0;
        int64_t now = now_ns();
        if (!begin) begin = now;
        if (now - begin > RING_NS) return 0;
    }
}

/* Every thread passes the number on when its turn comes; the caller takes the time, and ends the job. */
static uint32_t walk_ring(Pool *pool, Worker *me, void *argument) {
    Ring *ring = argument;
    uint32_t turn = (uint32_t) me->number, end = ring->rounds * ring->threads;
    int64_t begin = 0;
    for (; turn < end && await_turn(pool, ring, turn); turn += ring->threads) {
        if (turn == ring->threads) begin = now_ns();
        atomic_store_explicit(&ring->turn, turn + 1, memory_order_release);
    }
    if (!me->number) {
        if (await_turn(pool, ring, end)) ring->spent_ns = now_ns() - begin;
        raise_flag(&pool->ended, pool->end, 1);
    }
    return pool->end;
}

/* Nanoseconds of a hop, the mean of `rounds` ≥ 2 rounds; 0.0 if a thread was late. Returns 0, or an errno. */
static int time_ring(Pool *pool, int threads, uint32_t rounds, double *hop_ns) {
    Ring ring __attribute__((aligned(LINE))) = {.threads = (uint32_t) threads, .rounds = rounds};
    int64_t begun;
    int error = run_job(pool, 0, threads, 1, 0, walk_ring, &ring, now_ns, &begun);
    *hop_ns = (double) ring.spent_ns / ((double) (rounds - 1) * threads);
    return error;
}

#endif
