/* The state of a machine while it runs a program: sequencers, unit queues, semaphores, the channel. */
#ifndef AUTOTUNE_MACHINE_H
#define AUTOTUNE_MACHINE_H

#include "emulator/account.h"
#include "micro/execute.h"

#define NEVER INT64_MAX
#define RUNNING (-1)
#define HALTED (-2)
#define TOKENS 1024 /* signals that can wait at once: 255 in program order and 3 per queue entry */

typedef struct {
    int64_t dispatch_cycles, queue_depth, scratchpad_banks, ports;
    DramNumbers dram;
} Numbers;

/* An instruction in a queue. */
typedef struct {
    const Word *word;
    int64_t dispatched;
    int64_t elements, address; /* of a LOAD or STORE: inside of the tensor; its first byte */
    int64_t size[RANK];        /* clipped, where the word's is not settled */
    Loops *loops;              /* of a GATHER or LOOKUP: where they stood */
} Entry;

typedef struct {
    Entry *ring; /* [queue_depth] */
    int64_t head, count;
    int64_t free;
    int64_t start;  /* of the head, NEVER while it cannot */
    int64_t wanted; /* start of the head but for the ports of the scratchpad */
    int64_t bound;  /* the head ends no earlier: what is forwarded to it has then arrived */
    int32_t cause, bound_cause; /* what the head waited for last, and to the bound */
} Queue;

typedef struct {
    int64_t *ring;  /* [TOKENS] times of the signals not yet taken */
    int64_t *bound; /* [TOKENS] ends of the forwarding products that gave them, NULL if none does */
    uint32_t head, tail;
    int32_t taker;  /* unit that waits for it */
} Semaphore;

typedef struct {
    const Word *words;
    Memory memory;
    Loops loops;
    int64_t *begun;  /* trips that each LOOP and CASE has begun */
    Account *accounts;
    Stream *streams; /* of the DMA instructions, by Word.stream */
    Semaphore *semaphores;
    Queue queue[UNITS];
    int64_t port_free[UNITS]; /* when each port of the scratchpad is */
    int64_t pc, clock;
    int32_t state;   /* RUNNING, HALTED, or the unit whose queue is full (or CONTROL: waits itself) */
    int64_t full_cycles, wait_cycles; /* what held the sequencer up */
} Core;

/* Something that took time, for a trace. */
typedef struct {
    int64_t since, start, end; /* since when the unit had been free; -1 for the channel */
    int32_t core, unit, word, cause;
} Event;

typedef struct {
    Event *ring;
    int64_t count, limit;
} Trace;

typedef struct {
    Numbers numbers;
    Channel channel;
    Core *cores;
    const int64_t *parameters;
    Trace trace;
    int32_t core_count, has_numbers;
} Machine;

#endif
