/* A persistent pool of threads: the caller is thread 0, the others wait for it, spinning a while
 * before they sleep. No thread of it ever touches Python.
 *
 * Nothing here sets flush-to-zero: the kernels compute with denormals, as IEEE 754 and the emulator
 * do; what a run leaves in a thread's control register is what it found there. */
#ifndef AUTOTUNE_THREAD_POOL_H
#define AUTOTUNE_THREAD_POOL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define SPIN_NS 20000       /* of pauses: longer than a wake takes, shorter than is noticed */
#define IDLE_NS 50000       /* until a thread without work sleeps */
#define BETWEEN_NS 200000   /* until one that waits within a run does: its turn comes, soon or late */
#define PAUSES 32           /* between two looks at the clock, about a microsecond */
#define LINE 128            /* bytes that neighbouring cores may pull at once */
#define HUGE_PAGE ((size_t) 2 << 20)

/* A number that grows, and how many sleep until it does. */
typedef struct {
    _Atomic uint32_t value, sleepers;
    char pad[LINE - 2 * sizeof(uint32_t)];
} Flag;

struct Pool;

typedef struct {
    Flag go;   /* jobs given to this thread */
    Flag done; /* of the job's parts, counted through the pool's life */
    struct Pool *pool;
    pthread_t thread;
    char *scratch;
    size_t scratch_bytes;
    int number;
} __attribute__((aligned(LINE))) Worker;

typedef void (*Job)(struct Pool *, int thread, void *argument);

typedef struct Pool {
    pthread_mutex_t turn; /* of the callers */
    struct Pool *next;
    Worker *workers; /* [threads] */
    Job job;
    void *argument;
    int threads, started, pins, spins;
    uint32_t epoch;  /* every done is at least this, in turning arithmetic, when a job begins */
    _Atomic int stop;
} Pool;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

#ifdef __linux__
static void sleep_on(Flag *f, uint32_t seen) {
    syscall(SYS_futex, &f->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void wake_all(Flag *f) {
    syscall(SYS_futex, &f->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_end = PTHREAD_COND_INITIALIZER;

static void sleep_on(Flag *f, uint32_t seen) {
    pthread_mutex_lock(&sleep_lock);
    if (atomic_load(&f->value) == seen) pthread_cond_wait(&sleep_end, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

static void wake_all(Flag *f) {
    (void) f;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&sleep_end);
    pthread_mutex_unlock(&sleep_lock);
}
#endif

static inline int reached(Flag *f, uint32_t target, memory_order order) {
    return (int32_t) (atomic_load_explicit(&f->value, order) - target) >= 0;
}

static void raise_flag(Flag *f, uint32_t value) {
    atomic_store(&f->value, value);
    if (atomic_load(&f->sleepers)) wake_all(f);
}

/* Pauses, then lets others run, for limit_ns at most; 1 if the flag has reached the target. */
static int spin(Flag *f, uint32_t target, int64_t limit_ns) {
    int64_t begin = now_ns(), waited = 0;
    while (waited < limit_ns) {
        for (int i = 0; i < PAUSES; i++) {
            if (reached(f, target, memory_order_acquire)) return 1;
            pause_core();
        }
        if (waited > SPIN_NS) sched_yield();
        waited = now_ns() - begin;
    }
    return 0;
}

static void await_flag(Flag *f, uint32_t target, int64_t limit_ns) {
    if (reached(f, target, memory_order_acquire) || spin(f, target, limit_ns)) return;
    atomic_fetch_add(&f->sleepers, 1);
    for (;;) {
        uint32_t seen = atomic_load(&f->value);
        if ((int32_t) (seen - target) >= 0) break;
        sleep_on(f, seen);
    }
    atomic_fetch_sub(&f->sleepers, 1);
}

/* The caller's processors, in order; how many. */
static int allowed_cores(int *cores, int limit) {
    int count = 0;
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 0;
    for (int c = 0; c < CPU_SETSIZE && count < limit; c++)
        if (CPU_ISSET(c, &set)) cores[count++] = c;
#endif
    return count;
}

static void pin_worker(const Worker *w) {
#ifdef __linux__
    int cores[CPU_SETSIZE], count = allowed_cores(cores, CPU_SETSIZE);
    if (!count) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[w->number % count], &set);
    sched_setaffinity(0, sizeof set, &set); /* where it is not allowed, the thread floats */
#else
    (void) w;
#endif
}

static void *serve(void *argument) {
    Worker *w = argument;
    Pool *pool = w->pool;
    if (pool->pins) pin_worker(w);
    for (uint32_t jobs = 1;; jobs++) {
        await_flag(&w->go, jobs, pool->spins ? IDLE_NS : 0);
        if (atomic_load(&pool->stop)) return NULL;
        pool->job(pool, w->number, pool->argument);
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

/* One job of `parts` parts on `threads` threads, after those of other callers; 0, or an errno. Each
 * thread but the caller raises its done flag to epoch + parts in the end. */
static int run_job(Pool *pool, int threads, uint32_t parts, size_t scratch_bytes, Job job, void *argument) {
    pthread_mutex_lock(&pool->turn);
    int error = reserve(pool, threads, scratch_bytes);
    if (!error) error = start_workers(pool, threads);
    if (!error) {
        pool->job = job;
        pool->argument = argument;
        for (int t = 0; t < threads; t++) /* a thread that was left out for long may lie far behind */
            atomic_store_explicit(&pool->workers[t].done.value, pool->epoch, memory_order_relaxed);
        for (int t = 1; t < threads; t++) {
            Flag *go = &pool->workers[t].go;
            raise_flag(go, atomic_load_explicit(&go->value, memory_order_relaxed) + 1);
        }
        job(pool, 0, argument);
        for (int t = 1; t < threads; t++)
            await_flag(&pool->workers[t].done, pool->epoch + parts, pool->spins ? BETWEEN_NS : 0);
        pool->epoch += parts;
    }
    pthread_mutex_unlock(&pool->turn);
    return error;
}

static Pool *pools; /* all of them, for the child of a fork */

/* A forked child has the caller's thread alone: every pool begins anew, keeping its scratchpads. */
static void forget_workers(void) {
    for (Pool *pool = pools; pool; pool = pool->next) {
        pthread_mutex_init(&pool->turn, NULL);
        pool->started = 0;
        pool->epoch = 0;
        for (int t = 0; t < pool->threads; t++) {
            memset(&pool->workers[t].go, 0, sizeof(Flag));
            memset(&pool->workers[t].done, 0, sizeof(Flag));
        }
    }
}

static Pool *make_pool(int threads, int pins) {
    static int watches_forks;
    if (!watches_forks && pthread_atfork(NULL, NULL, forget_workers)) return NULL;
    watches_forks = 1;
    Pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
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
    int cores[1024], count = allowed_cores(cores, 1024);
    pool->threads = threads;
    pool->pins = pins;
    pool->spins = !count || threads <= count; /* who spins must not hold up who works */
    pthread_mutex_init(&pool->turn, NULL);
    pool->next = pools;
    pools = pool;
    return pool;
}

/* Nobody runs a job any more. */
static void end_pool(Pool *pool) {
    Pool **link = &pools;
    while (*link != pool) link = &(*link)->next;
    *link = pool->next;
    atomic_store(&pool->stop, 1);
    for (int t = 1; t < pool->started; t++) {
        Worker *w = &pool->workers[t];
        raise_flag(&w->go, atomic_load(&w->go.value) + 1);
        pthread_join(w->thread, NULL);
    }
    for (int t = 0; t < pool->threads; t++) free(pool->workers[t].scratch);
    free(pool->workers);
    pthread_mutex_destroy(&pool->turn);
    free(pool);
}

#endif
