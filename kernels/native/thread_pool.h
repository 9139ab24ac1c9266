/* A persistent pool of threads: the caller is thread 0, the others wait for it, spinning a while
 * before they sleep. No thread of it ever touches Python.
 *
 * A job is a number of programs, each of so many parts. A thread takes parts of the present program
 * while there are any, its own share first and then what is left of others' (take_part), and waits
 * for a later program to begin. Who ends the last part of a program begins the next one, so that a
 * thread that the system has put aside holds up nobody but in the midst of a part.
 *
 * The caller returns when the last program has ended, whoever is late. What it gave lives until no
 * thread is in the job any more: threads enter it, and leave it to wait.
 *
 * Nothing here sets flush-to-zero: the kernels compute with denormals, as IEEE 754 and the emulator
 * do; what a run leaves in a thread's control register is what it found there. */
#ifndef AUTOTUNE_THREAD_POOL_H
#define AUTOTUNE_THREAD_POOL_H

#include "native/flag.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define IDLE_NS 50000       /* until a thread without work sleeps */
#define APART_NS 5000000    /* … and on a processor of its own, where something is timed again and again: a processor that
                             * rests comes back late, or for seconds as half of the caller's core (virtual Zen 4) */
#define BETWEEN_NS 2000000  /* until one that waits within a run does: its turn comes soon, and to be woken
                             * takes 60 microseconds, one time in a hundred a millisecond (virtual Zen 3) */
#define OVERDUE_NS 500000   /* until a caller's turn is due: before, who comes first has it, as to be woken takes longer than short runs */
#define ALONE 64            /* runs in a row of a caller that is taken as the only one */
#define MOST_MOVED 8        /* threads of a pool that are kept off their caller's processor: to move one takes a microsecond, and what one
                             * that waits behind its caller would have done is soon taken by many others */
#define HUGE_PAGE ((size_t) 2 << 20)
#define COUNT_BITS 16       /* of parts, beside the number of their program */

struct Pool;

typedef struct {
    Flag go; /* the last job given to this thread */
    _Atomic uint64_t share; /* number of a program, and parts of it taken of this thread's share */
    char pad[LINE - sizeof(uint64_t)];
    _Atomic int inside; /* the job that is open */
    uint32_t heard;     /* of go, when the thread began */
    struct Pool *pool;
    pthread_t thread;
    char *scratch;
    size_t scratch_bytes;
    int number;
} __attribute__((aligned(LINE))) Worker;

/* Takes and runs parts of the present program until none is left, and of those behind it; returns
 * at which value of `ended` there may be more. */
typedef uint32_t (*Walk)(struct Pool *, Worker *, void *argument);

typedef struct Pool {
    pthread_mutex_t turn, queue;  /* of the callers: whose run it is, and who waits for that first */
    _Atomic int64_t waits_since; /* the first in the queue; 0 while nobody waits */
    struct Pool *next;
    struct Pool **lanes; /* [most_lanes] of so many threads each, the first is the pool itself; NULL where there is one */
    int most_lanes;
    _Atomic int lane_count; /* made so far */
    pthread_mutex_t line, changing; /* who waits for any lane first; lanes that are made, or were left */
    pthread_cond_t left;
    _Atomic int64_t line_since; /* as waits_since, of the line */
    Worker *workers; /* [threads] */
    Walk walk;
    void *argument;
    int threads, started, spins, knows_cores;
    _Atomic int apart; /* every thread has a processor of its own */
    _Atomic int here;  /* the caller's processor, which the others keep off; −1 where they do not */
    pthread_t caller;  /* of the last run, and how many in a row it had, ALONE at most */
    int alone;
#ifdef __linux__
    cpu_set_t cores; /* of the thread that made the pool */
#endif
    uint64_t first; /* number of the job's first program; all programs are numbered from 1 */
    uint32_t end;   /* of `ended`, when the job is over */
    _Atomic int stop;
    _Atomic uint32_t job; /* odd while it is open */
    Flag ended;           /* number of the program that has not ended, its lowest 32 bits */
    _Atomic uint64_t parts_ended; /* number of a program, and parts of it that have ended */
    char pad[LINE - sizeof(uint64_t)];
} Pool;

/* How many programs of the job have ended. */
static inline int64_t programs_ended(Pool *pool) {
    return (uint32_t) (atomic_load_explicit(&pool->ended.value, memory_order_acquire) - (uint32_t) pool->first);
}

static inline uint32_t counted(uint64_t word, uint64_t number) {
    return word >> COUNT_BITS == number ? (uint32_t) word & ((1u << COUNT_BITS) - 1) : 0;
}

/* The next part of a share of `count`, or −1. A share last used by an earlier program is untouched;
 * one that a later program uses is none of a late thread's business. */
static inline int64_t take_part(_Atomic uint64_t *share, uint64_t number, int64_t count) {
    uint64_t seen = atomic_load_explicit(share, memory_order_relaxed);
    for (;;) {
        uint32_t taken = counted(seen, number);
        if (seen >> COUNT_BITS > number || taken >= count) return -1;
        uint64_t next = number << COUNT_BITS | (taken + 1);
        if (atomic_compare_exchange_weak_explicit(share, &seen, next, memory_order_relaxed, memory_order_relaxed))
            return taken;
    }
}

/* A thread has ended `more` parts and found no others; whether all `count` have, and so the program. */
static inline int end_parts(Pool *pool, uint64_t number, int64_t more, int64_t count) {
    uint64_t seen = atomic_load_explicit(&pool->parts_ended, memory_order_relaxed), next;
    if (!more) return 0;
    do next = number << COUNT_BITS | (counted(seen, number) + (uint64_t) more);
    while (!atomic_compare_exchange_weak_explicit(&pool->parts_ended, &seen, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
    return (int64_t) counted(next, number) == count;
}

/* Take the caller's processors as those of the pool; how many, 0 where the system does not tell. */
static int take_cores(Pool *pool) {
#ifdef __linux__
    pool->knows_cores = !sched_getaffinity(0, sizeof pool->cores, &pool->cores);
    return pool->knows_cores ? CPU_COUNT(&pool->cores) : 0;
#else
    (void) pool;
    return 0;
#endif
}

/* Let a thread of the pool run on the pool's processors but the caller's, or on one of them alone. A thread begins with those
 * of the caller that it was made for, who may hold itself to a single one. */
static void place_thread(const Pool *pool, pthread_t thread, int number) {
#ifdef __linux__
    if (!pool->knows_cores) return;
    cpu_set_t set = pool->cores;
    int here = atomic_load(&pool->here);
    if (here >= 0) CPU_CLR(here, &set);
    if (atomic_load(&pool->apart)) {
        set = pool->cores;
        int left = number % CPU_COUNT(&pool->cores), c = 0;
        while (!CPU_ISSET(c, &pool->cores) || left--) c++;
        CPU_ZERO(&set);
        CPU_SET(c, &set);
    }
    pthread_setaffinity_np(thread, sizeof set, &set); /* where it is not allowed, the thread stays as it is */
#else
    (void) pool, (void) thread, (void) number;
#endif
}

/* Have a lane to oneself; the first of those who wait is due after OVERDUE_NS. Without a queue, who ends a run begins the next
 * one before the other callers wake, for seconds on processors of their own. */
static void take_turn(Pool *pool) {
    int64_t since = atomic_load(&pool->waits_since);
    if ((!since || now_ns() - since < OVERDUE_NS) && !pthread_mutex_trylock(&pool->turn)) return;
    pthread_mutex_lock(&pool->queue);
    if (pthread_mutex_trylock(&pool->turn)) {
        atomic_store(&pool->waits_since, now_ns());
        pthread_mutex_lock(&pool->turn);
        atomic_store(&pool->waits_since, 0);
    }
    pthread_mutex_unlock(&pool->queue);
}

/* Keep every thread but the caller on a processor of its own, the caller's the first; or let all go where there is room. */
static void set_apart(Pool *pool, int apart) {
    take_turn(pool);
    atomic_store(&pool->apart, apart);
    for (int t = 1; t < pool->started; t++) place_thread(pool, pool->workers[t].thread, t);
    pthread_mutex_unlock(&pool->turn);
}

/* Where callers take turns, keep the other threads off the processor of the one whose turn it is. A thread that the system puts
 * behind it waits until it has done all the work: where another caller, or a process of the idle class, has the other processor,
 * the system looks for such a place at ticks alone. Behind a caller alone a thread is well placed where another process computes
 * on the other processor: it would be taken off in the midst of a part there. */
static void leave_caller(Pool *pool) {
#ifdef __linux__
    if (!pool->knows_cores || !pool->spins || pool->threads > MOST_MOVED) return;
    pthread_t self = pthread_self();
    int is_first = !pool->alone;
    if (!pthread_equal(pool->caller, self)) pool->alone = is_first ? ALONE : 1;
    else if (pool->alone < ALONE) pool->alone++;
    pool->caller = self;
    int here = pool->alone < ALONE ? sched_getcpu() : -1;
    if (here == atomic_load(&pool->here)) return;
    if (here >= 0 && CPU_COUNT(&pool->cores) - !!CPU_ISSET(here, &pool->cores) == 0) return;
    atomic_store(&pool->here, here);
    for (int t = 1; t < pool->started; t++) place_thread(pool, pool->workers[t].thread, t);
#else
    (void) pool;
#endif
}

/* Whether the job is still open. If so, what its caller gave stays until leave_job. */
static int enter_job(Pool *pool, Worker *w, uint32_t job) {
    atomic_store(&w->inside, 1);
    if (atomic_load(&pool->job) == job) return 1;
    atomic_store_explicit(&w->inside, 0, memory_order_release);
    return 0;
}

static void work(Pool *pool, Worker *w, uint32_t job) {
    while (enter_job(pool, w, job)) {
        uint32_t next = pool->walk(pool, w, pool->argument);
        int64_t limit_ns = pool->spins ? BETWEEN_NS : 0;
        int over = next == pool->end;
        atomic_store_explicit(&w->inside, 0, memory_order_release);
        if (over) return;
        await_flag(&pool->ended, next, limit_ns);
    }
}

static void *serve(void *argument) {
    Worker *w = argument;
    Pool *pool = w->pool;
    int apart, here;
    do { /* others may place it between a load and its end */
        apart = atomic_load(&pool->apart);
        here = atomic_load(&pool->here);
        place_thread(pool, pthread_self(), w->number);
    } while (apart != atomic_load(&pool->apart) || here != atomic_load(&pool->here));
    for (uint32_t job = w->heard;;) {
        int64_t limit_ns = atomic_load(&pool->apart) ? APART_NS : IDLE_NS;
        await_flag(&w->go, job + 1, pool->spins ? limit_ns : 0);
        if (atomic_load(&pool->stop)) return NULL;
        job = atomic_load(&w->go.value);
        work(pool, w, job);
    }
}

/* As many threads as a job needs; 0, or an errno. Signals stay with Python's threads. */
static int start_workers(Pool *pool, int threads) {
    if (threads <= pool->started) return 0;
    int error = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (!error && pool->started < threads) {
        Worker *w = &pool->workers[pool->started];
        w->heard = atomic_load(&w->go.value);
        error = pool->started ? pthread_create(&w->thread, NULL, serve, w) : 0;
        if (!error) pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Scratchpads of the first `threads` threads, in huge pages where they are large. What is new is
 * not touched here, so that its pages come to lie near the thread that uses them first. */
static int reserve(Pool *pool, int threads, size_t bytes) {
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : LINE;
    size_t whole = (bytes + unit - 1) / unit * unit;
    if (whole < bytes) return ENOMEM;
    for (int t = 0; t < threads; t++) {
        Worker *w = &pool->workers[t];
        if (w->scratch_bytes >= bytes) continue;
        free(w->scratch);
        w->scratch_bytes = 0;
        w->scratch = aligned_alloc(unit, whole);
        if (!w->scratch) return ENOMEM;
#ifdef __linux__
        if (unit == HUGE_PAGE) madvise(w->scratch, whole, MADV_HUGEPAGE);
#endif
        w->scratch_bytes = whole;
    }
    return 0;
}

static void close_job(Pool *pool, int threads, uint32_t job) {
    atomic_store(&pool->job, job + 1);
    for (int t = 1; t < threads; t++)
        for (int looks = 1; atomic_load(&pool->workers[t].inside); looks++)
            if (looks % PAUSES && pool->spins) pause_core();
            else sched_yield();
}

static Pool *make_lane(const Pool *pool);

/* A lane that nobody has or waits for, whose turn the caller then has; NULL where there is none. */
static Pool *free_lane(Pool *pool) {
    int count = atomic_load(&pool->lane_count);
    for (int i = 0; i < count; i++)
        if (!atomic_load(&pool->lanes[i]->waits_since) && !pthread_mutex_trylock(&pool->lanes[i]->turn)) return pool->lanes[i];
    return NULL;
}

/* Another lane, whose turn the caller then has; NULL where there are as many as there may be, or memory is short. */
static Pool *new_lane(Pool *pool) {
    if (atomic_load(&pool->lane_count) == pool->most_lanes) return NULL;
    pthread_mutex_lock(&pool->changing);
    int count = atomic_load(&pool->lane_count);
    Pool *lane = count < pool->most_lanes ? make_lane(pool) : NULL;
    if (lane) {
        pthread_mutex_lock(&lane->turn);
        pool->lanes[count] = lane;
        atomic_store(&pool->lane_count, count + 1);
    }
    pthread_mutex_unlock(&pool->changing);
    return lane;
}

/* A lane for a run: one that is free, a new one, or the first that another run leaves. */
static Pool *take_lane(Pool *pool) {
    int64_t since = atomic_load(&pool->line_since);
    Pool *lane = NULL;
    if (!since || now_ns() - since < OVERDUE_NS) lane = free_lane(pool);
    if (!lane) lane = new_lane(pool);
    if (lane) return lane;
    pthread_mutex_lock(&pool->line);
    atomic_store(&pool->line_since, now_ns());
    pthread_mutex_lock(&pool->changing);
    while (!(lane = free_lane(pool))) pthread_cond_wait(&pool->left, &pool->changing);
    pthread_mutex_unlock(&pool->changing);
    atomic_store(&pool->line_since, 0);
    pthread_mutex_unlock(&pool->line);
    return lane;
}

/* Who waits in the line looks again: it has told so before it looked last. */
static void leave_lane(Pool *pool, Pool *lane) {
    pthread_mutex_unlock(&lane->turn);
    if (!atomic_load(&pool->line_since)) return;
    pthread_mutex_lock(&pool->changing);
    pthread_cond_signal(&pool->left);
    pthread_mutex_unlock(&pool->changing);
}

/* A job by who has the pool's turn; 0, or an errno. */
static int run_turn(Pool *pool, int threads, uint32_t programs, size_t scratch_bytes, Walk walk, void *argument) {
    int error = reserve(pool, threads, scratch_bytes);
    if (threads > 1) leave_caller(pool);
    if (!error) error = start_workers(pool, threads);
    if (error) return error;
    uint32_t job = atomic_load(&pool->job) + 1;
    pool->end = (uint32_t) pool->first + programs;
    pool->walk = walk;
    pool->argument = argument;
    atomic_store(&pool->job, job);
    for (int t = 1; t < threads; t++) raise_flag(&pool->workers[t].go, job, 1);
    while (!reached(&pool->ended, pool->end, memory_order_acquire))
        await_flag(&pool->ended, walk(pool, pool->workers, argument), pool->spins ? BETWEEN_NS : 0);
    close_job(pool, threads, job);
    pool->first += programs;
    return 0;
}

/* One job of `programs` programs on `threads` threads, after those of other callers, or where it is `many` beside them; 0, or
 * an errno. `begun` gets what `clock` says when its turn comes. */
static int run_job(Pool *pool, int many, int threads, uint32_t programs, size_t scratch_bytes, Walk walk, void *argument,
                   int64_t (*clock)(void), int64_t *begun) {
    Pool *lane = many && pool->most_lanes > 1 ? take_lane(pool) : NULL;
    if (lane) {
        *begun = clock();
        int error = run_turn(lane, threads, programs, scratch_bytes, walk, argument);
        leave_lane(pool, lane);
        if (!error || lane == pool) return error;
    } /* the system has no threads or memory for another lane */
    take_turn(pool);
    *begun = clock();
    int error = run_turn(pool, threads, programs, scratch_bytes, walk, argument);
    leave_lane(pool, pool);
    return error;
}

static Pool *pools; /* all of them, for the child of a fork */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;

static void number_from_one(Pool *pool) {
    memset(&pool->ended, 0, sizeof(Flag));
    pool->ended.value = 1;
    pool->first = 1;
    pool->job = 0;
    pool->parts_ended = 0;
}

/* A forked child has the caller's thread alone: every pool begins anew, keeping its scratchpads. */
static void forget_workers(void) {
    pthread_mutex_init(&pools_lock, NULL);
    for (Pool *pool = pools; pool; pool = pool->next) {
        pthread_mutex_init(&pool->turn, NULL);
        pthread_mutex_init(&pool->queue, NULL);
        pthread_mutex_init(&pool->line, NULL);
        pthread_mutex_init(&pool->changing, NULL);
        pthread_cond_init(&pool->left, NULL);
        pool->waits_since = pool->line_since = 0;
        pool->started = 0;
        number_from_one(pool);
        for (int t = 0; t < pool->threads; t++) {
            Worker *w = &pool->workers[t];
            memset(&w->go, 0, sizeof(Flag));
            w->inside = 0;
            w->share = 0;
        }
    }
}

static Pool *make_pool(int threads) {
    static int watches_forks;
    if (!watches_forks && pthread_atfork(NULL, NULL, forget_workers)) return NULL;
    watches_forks = 1;
    Pool *pool = aligned_alloc(LINE, (sizeof *pool + LINE - 1) / LINE * LINE);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->workers = aligned_alloc(LINE, threads * sizeof(Worker));
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    memset(pool->workers, 0, threads * sizeof(Worker));
    for (int t = 0; t < threads; t++) {
        pool->workers[t].number = t;
        pool->workers[t].pool = pool;
    }
    int count = take_cores(pool);
    pool->threads = threads;
    pool->here = -1;
    pool->spins = !count || threads <= count; /* who spins must not hold up who works */
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->queue, NULL);
    pthread_mutex_init(&pool->line, NULL);
    pthread_mutex_init(&pool->changing, NULL);
    pthread_cond_init(&pool->left, NULL);
    number_from_one(pool);
    pool->most_lanes = count / threads;
    pool->lanes = pool->most_lanes > 1 ? calloc(pool->most_lanes, sizeof *pool->lanes) : NULL;
    if (pool->lanes) pool->lanes[0] = pool;
    else pool->most_lanes = 1;
    pool->lane_count = 1;
    pthread_mutex_lock(&pools_lock);
    pool->next = pools;
    pools = pool;
    pthread_mutex_unlock(&pools_lock);
    return pool;
}

/* Another lane of a pool, on the same processors; NULL where there is no memory. */
static Pool *make_lane(const Pool *pool) {
    Pool *lane = make_pool(pool->threads);
    if (!lane) return NULL;
    free(lane->lanes);
    lane->lanes = NULL;
    lane->most_lanes = 1;
#ifdef __linux__
    lane->cores = pool->cores;
#endif
    lane->knows_cores = pool->knows_cores;
    lane->spins = pool->spins;
    return lane;
}

/* Nobody runs a job any more. */
static void end_pool(Pool *pool) {
    for (int i = 1; i < pool->lane_count; i++) end_pool(pool->lanes[i]);
    free(pool->lanes);
    pthread_mutex_lock(&pools_lock);
    Pool **link = &pools;
    while (*link != pool) link = &(*link)->next;
    *link = pool->next;
    pthread_mutex_unlock(&pools_lock);
    atomic_store(&pool->stop, 1);
    for (int t = 1; t < pool->started; t++) {
        Worker *w = &pool->workers[t];
        raise_flag(&w->go, atomic_load(&w->go.value) + 1, 1);
        pthread_join(w->thread, NULL);
    }
    for (int t = 0; t < pool->threads; t++) free(pool->workers[t].scratch);
    free(pool->workers);
    pthread_mutex_destroy(&pool->turn);
    pthread_mutex_destroy(&pool->queue);
    pthread_mutex_destroy(&pool->line);
    pthread_mutex_destroy(&pool->changing);
    pthread_cond_destroy(&pool->left);
    free(pool);
}

#endif
