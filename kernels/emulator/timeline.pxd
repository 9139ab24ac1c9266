# The timing model's machine, queues, costs and sums: the declarations of emulator/timeline.h and of
# the headers that it includes.

from libc.stdint cimport int32_t, int64_t

from kernels.micro.decode cimport Loops, Word

cdef extern from "emulator/timeline.h" nogil:
    enum: UNITS, OPCODES, SPENDINGS, TOKENS, NARROW_WORKSPACE, NEVER, SHAPES
    enum: UNIT_CONTROL, OP_MARK, OP_LOOP, OP_CASE
    ctypedef struct CostNumbers:
        int64_t rows, cols, dataflow, matrix_setup_cycles, macs_per_cell[3]
        int64_t lanes, vector_setup_cycles, divide_cycles, transcendental_cycles
        int64_t banks, dma_setup_cycles
    ctypedef struct Cost:
        pass
    ctypedef struct DramNumbers:
        double cycles_per_burst
        int64_t burst_bytes, row_bytes, banks
        int64_t activate_cycles, precharge_cycles, column_cycles, turnaround_cycles
        int row_shift, burst_shift, bank_shift
    ctypedef struct Numbers:
        int64_t dispatch_cycles, queue_depth, scratchpad_banks, ports
        DramNumbers dram
    ctypedef struct Shape:
        int64_t phase
    ctypedef struct Stream:
        Shape shape[16]
    ctypedef struct Channel:
        int64_t *open
    ctypedef struct Entry:
        const Word *word
        Loops *loops
    ctypedef struct Queue:
        Entry *ring
        int64_t head, count, free, start
    ctypedef struct Semaphore:
        int64_t *ring
        int64_t *bound
        unsigned int head, tail
        int taker
    ctypedef struct Memory:
        float *scratchpad
        void **tensors
        float *work
    ctypedef struct Account:
        pass
    ctypedef struct Sums:
        int64_t executed[40]
        int64_t trips, cases, first
    ctypedef struct Core:
        const Word *words
        Memory memory
        int64_t *begun
        Account *accounts
        Stream *streams
        Semaphore *semaphores
        Queue queue[4]
        int64_t pc, clock
        int state
        int64_t full_cycles, wait_cycles
    ctypedef struct Event:
        int64_t since, start, end
        int core, unit, word, cause
    ctypedef struct Trace:
        Event *ring
        int64_t count, limit
    ctypedef struct Machine:
        Numbers numbers
        Channel channel
        Core *cores
        const int64_t *parameters
        Trace trace
        int core_count, has_numbers
    void fill_row(float value, int64_t n, float *d, int64_t ds)
    void advance(Machine *m, Core *core)
    int run_machine(Machine *m, int64_t budget)
    int cost_stream(const CostNumbers *n, Word *words, Cost *costs, int64_t count, int32_t *served)
    int name_waits(Word *words, int64_t count, Cost *costs)
    void add_instruction(const Word *w, const Cost *c, const Account *a, const Stream *stream, Sums *out)
