# A sequence of programs on a pool's threads.

NOWHERE = -1
"""Pointer number of a base whose address stands in the plan."""


MOST_PARTS = (1 << COUNT_BITS) - 1
"""Streams that a program may have."""


cdef int64_t value_bytes(int64_t count):
    """Whole cache lines for so many values, so that a scratchpad behind them begins on one."""
    return (count * <int64_t> sizeof(uint64_t) + LINE - 1) // LINE * LINE


cdef int64_t *integers(object array, int64_t count, str name) except? NULL:
    """The elements of an int64 array, not by a memoryview: three of them take half a microsecond."""
    if not cnp.PyArray_Check(array):
        raise InputError(f"{name} is a {type(array).__name__}; give an int64 array")
    cdef cnp.ndarray found = array
    if found.ndim != 1 or cnp.PyArray_TYPE(found) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY(found):
        raise InputError(f"{name} is {array.dtype}{list(array.shape)}; give contiguous int64 that can be written")
    if found.shape[0] < count:
        raise InputError(f"{found.shape[0]} {name} are given; the plan has {count}")
    return <int64_t *> cnp.PyArray_DATA(found)


def addresses(arrays not None):
    """Where the elements of several arrays begin, as int64: ``ndarray.ctypes`` takes two microseconds
    for each."""
    cdef cnp.npy_intp count = len(arrays)
    cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &count, cnp.NPY_INT64, 0)
    cdef int64_t *values = <int64_t *> cnp.PyArray_DATA(found)
    cdef Py_ssize_t i
    for i in range(count):
        array = arrays[i]
        if not cnp.PyArray_Check(array):
            raise InputError(f"array {i} is a {type(array).__name__}; give an array")
        values[i] = <int64_t> cnp.PyArray_DATA(<cnp.ndarray> array)
    return found


cdef class Plan:
    """Programs that run one after the other by one call.

    ``programs`` are pairs (streams, table). Streams of a program are independent parts, which the
    pool's threads take as they get free, each from its own share first; a program begins when all
    parts of the one before have ended. ``table`` has shape [bases, 2], int64: base b of the
    streams, for b > 0, is byte ``table[b, 1]`` behind the pointer of number ``table[b, 0]`` that a
    run is given, or the address ``table[b, 1]`` itself where the number is −1; row 0 stands for the
    scratchpad and is not read. ``keeps`` is held as long as the plan: the kernels' code, constants.

    Raises ``ProgramError`` for a program without streams or with more than 65,535, and for a base
    that its table lacks.

    ``many`` plans run for several callers at once where the pool has ``lanes``: each run then gets pointers to memory of its own.
    """

    cdef NativeProgram *programs
    cdef int64_t count
    cdef readonly ThreadPool pool
    cdef readonly int threads
    cdef readonly int64_t pointer_count
    cdef readonly int64_t scratchpad_bytes
    cdef int64_t value_bytes
    cdef readonly bint dispatches
    cdef bint made, many
    cdef list streams
    cdef object keeps
    cdef const int64_t[::1] wanted, zeros

    def __init__(self, programs, ThreadPool pool not None, keeps=None, bint many=False):
        if self.programs:
            raise ProgramError("a Plan is made once; make another one")
        programs = [(tuple(streams), checked_table(table, 2, "of pointers")) for streams, table in programs]
        self.programs = <NativeProgram *> room(len(programs), sizeof(NativeProgram))
        self.pool, self.keeps, self.streams, self.threads, self.many = pool, keeps, [], 1, many
        self.zeros = np.zeros(PARAMETERS, np.int64)
        wanted = set()
        for streams, table in programs:
            self._add(streams, table, wanted)
        self._link()
        self.wanted = np.array(sorted(wanted), np.int64)
        self.pointer_count = max(wanted, default=-1) + 1
        self.made = True

    def __dealloc__(self):
        cdef int64_t p, i
        for p in range(self.count):
            for i in range(self.programs[p].laid):
                free(self.programs[p].tracks[i].starts)
                free(self.programs[p].tracks[i].sources)
            free(self.programs[p].tracks)
        free(self.programs)

    def __len__(self):
        return self.count

    cdef int _add(self, tuple streams, const int64_t[:, ::1] table, set wanted) except -1:
        cdef NativeProgram *program = &self.programs[self.count]
        cdef Stream stream
        cdef int64_t i
        if not 1 <= len(streams) <= MOST_PARTS:
            raise ProgramError(
                f"program {self.count} has {len(streams)} streams; a program has 1 to {MOST_PARTS}"
            )
        before = list(dict.fromkeys(s.before for s in streams if isinstance(s, Stream) and s.before is not None))
        program.tracks = <Track *> room(len(streams) + len(before), sizeof(Track))
        program.count = len(streams)
        self.count += 1
        for stream in (*streams, *before):
            self._lay(&program.tracks[program.laid], stream, table, wanted, program)
            self.scratchpad_bytes = max(self.scratchpad_bytes, stream.scratchpad_bytes)
            self.value_bytes = max(self.value_bytes, value_bytes(stream.value_count + stream.turn_count))
            self.dispatches |= stream.dispatches
            self.streams.append(stream)
        for i, stream in enumerate(streams):
            if stream.before is not None:
                program.tracks[i].before = &program.tracks[len(streams) + before.index(stream.before)]
        self.threads = min(self.pool.threads, max(self.threads, len(streams)))
        return 0

    cdef void _link(self):
        """Tells every program which one of several parts comes next."""
        cdef int64_t p, shared = self.count
        for p in reversed(range(self.count)):
            self.programs[p].shared = shared
            if self.programs[p].count > 1:
                shared = p

    cdef int _lay(self, Track *track, Stream stream, const int64_t[:, ::1] table, set wanted,
                  NativeProgram *program) except -1:
        """Resolves a stream's bases by its program's table."""
        cdef int64_t i, base, pointer
        program.laid += 1  # from here on __dealloc__ frees what there is
        if stream is None or not stream.made:
            raise ProgramError(f"program {self.count - 1} has a stream that was never made")
        if stream.base_count > max(1, table.shape[0]):
            raise ProgramError(
                f"program {self.count - 1} uses base {stream.base_count - 1}; its table has {table.shape[0]} rows"
            )
        track.starts = <uint64_t *> room(stream.value_count, sizeof(uint64_t))
        track.sources = <int32_t *> room(stream.value_count, sizeof(int32_t))
        track.steps, track.moves, track.swaps = stream.steps, stream.moves, stream.swaps
        track.value_count, track.turn_count = stream.value_count, stream.turn_count
        for i in range(stream.value_count):
            base = stream.bases[i]
            track.starts[i] = stream.starts[i]
            if base <= 0:
                track.sources[i] = FROM_NOTHING if base < 0 else FROM_SCRATCHPAD
                continue
            pointer = table[base, 0]
            if not NOWHERE <= pointer < 1 << 30:
                raise ProgramError(f"base {base} is pointer {pointer}; pointers are −1 to 2^30")
            track.starts[i] += <uint64_t> table[base, 1]
            track.sources[i] = <int32_t> (FROM_POINTERS + pointer if pointer >= 0 else FROM_NOTHING)
            if pointer >= 0:
                wanted.add(pointer)
        return 0

    def run(self, pointers not None, parameters=None, nanoseconds=None, bint own_time=False, memory=None):
        """Run all programs once; returns when the last has ended.

        All three are int64 arrays. ``pointers`` are addresses, ``pointer_count`` at least;
        ``parameters`` the 256 runtime parameters, needed where a program dispatches.
        ``nanoseconds`` is filled with the time that each program took, when it is given, without what the run
        waited for those of other threads: by the clock, or as ``own_time`` that of the thread, which stands still
        while others have its core. ``memory`` gives the run the array that pointer 0 is, whatever ``pointers`` say. Raises
        ``InputError`` for less than that, a pointer that is 0 or the own time of several threads,
        and ``MemoryError`` when threads or scratchpads cannot be had.
        """
        cdef int64_t *given = integers(pointers, self.pointer_count, "pointers")
        cdef int64_t *times = NULL
        cdef const int64_t *chosen
        cdef int64_t i
        if not self.made:
            raise InputError("a plan that was never made cannot run")
        chosen = &self.zeros[0]
        if parameters is not None:
            chosen = integers(parameters, PARAMETERS, "parameters")
        elif self.dispatches:
            raise InputError("the plan dispatches on runtime parameters; pass them")
        if nanoseconds is not None:
            times = integers(nanoseconds, self.count, "nanoseconds")
        if own_time and self.threads > 1:
            raise InputError(f"own time of {self.threads} threads; leave own_time out")
        for i in range(self.wanted.shape[0]):
            if given[self.wanted[i]] == 0:
                raise InputError(f"pointer {self.wanted[i]} is 0, and the plan uses it")
        cdef uint64_t *sources = <uint64_t *> room(FROM_POINTERS + self.pointer_count, sizeof(uint64_t))
        try:
            for i in range(self.pointer_count):
                sources[FROM_POINTERS + i] = <uint64_t> given[i]
            if memory is None:
                self._run(sources, chosen, times, own_time)
            else:
                self._run_in(memory, sources, chosen, times, own_time)
        finally:
            free(sources)

    cdef int _run_in(self, memory, uint64_t *sources, const int64_t *parameters, int64_t *times, bint own_time) except -1:
        """Runs with a block of ``memory`` as pointer 0."""
        cdef cnp.ndarray block = memory.take()
        try:
            if self.pointer_count:
                sources[FROM_POINTERS] = <uint64_t> cnp.PyArray_DATA(block)
            self._run(sources, parameters, times, own_time)
        finally:
            memory.give(block)
        return 0

    cdef int _run(self, uint64_t *sources, const int64_t *parameters, int64_t *times, bint own_time) except -1:
        """Runs with the pointers that stand in ``sources`` from FROM_POINTERS on; the places before them are for the run."""
        cdef PlanRun run
        cdef int64_t i, begin
        cdef int error
        run.programs, run.count, run.pointers = self.programs, self.count, sources
        run.parameters, run.ends, run.threads = parameters, times, self.threads
        run.value_bytes, run.own_time = self.value_bytes, own_time
        with nogil:
            error = run_job(self.pool.pool, self.many, self.threads, <uint32_t> self.count,
                            self.value_bytes + self.scratchpad_bytes, walk_plan, &run,
                            thread_ns if own_time else now_ns, &begin)
            if times != NULL and not error:
                for i in range(self.count - 1, 0, -1):
                    times[i] -= times[i - 1]
                if self.count:
                    times[0] -= begin
        if error:
            raise MemoryError(
                f"{self.threads} threads with scratchpads of {self.scratchpad_bytes} bytes: "
                f"{os.strerror(error)}"
            )
        return 0
