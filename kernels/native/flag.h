/* A number that threads wait for: spinning a while, then asleep; what thread_pool.h is made of. */
#ifndef AUTOTUNE_FLAG_H
#define AUTOTUNE_FLAG_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define SPIN_NS 20000       /* of pauses: longer than a wake takes, shorter than is noticed */
#define PAUSES 32           /* between two looks at the clock, about a microsecond */
#define LINE 128            /* bytes that neighbouring cores may pull at once */

/* A number that grows, and how many sleep until it does. */
typedef struct {
    _Atomic uint32_t value, sleepers;
    char pad[LINE - 2 * sizeof(uint32_t)];
} Flag;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What the calling thread alone has taken; it stands still while others have the core. */
static inline int64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
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

/* Those who sleep see it when they are woken only: `wakes` may be 0 where nobody waits for this value. */
static void raise_flag(Flag *f, uint32_t value, int wakes) {
    atomic_store(&f->value, value);
    if (wakes && atomic_load(&f->sleepers)) wake_all(f);
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

#endif
