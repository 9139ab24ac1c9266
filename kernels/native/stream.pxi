# One thread's steps, checked and prepared for the walk.

cdef const int64_t[:, ::1] checked_table(object rows, int columns, str name):
    table = np.ascontiguousarray(rows, np.int64)
    if table.size == 0:
        table = table.reshape(0, columns)
    if table.ndim != 2 or table.shape[1] != columns:
        raise ProgramError(f"table {name} of shape {table.shape}; it has {columns} columns")
    if table.shape[0] >= 1 << 31:
        raise ProgramError(f"table {name} of {table.shape[0]} rows; it may have 2147483647")
    return table


cdef class Stream:
    """One thread's part in a program; immutable, and free to stand in any number of plans.

    The tables are those of the module's head. ``scratchpad_bytes`` is how much behind base 0 is the
    thread's own. ``before`` is a stream that a thread runs ahead of the first of those that have it, in
    each run of their program: it leaves in the scratchpad what none of them overwrites. Raises ``ProgramError`` when a table does not hold together; what the kernels do
    with their operands is not checked.
    """

    cdef NativeStep *steps
    cdef Move *moves
    cdef Swap *swaps
    cdef uint64_t *starts
    cdef int64_t *bases
    cdef int64_t value_count, turn_count
    cdef readonly int64_t base_count
    cdef readonly int64_t scratchpad_bytes
    cdef readonly bint dispatches
    cdef readonly Stream before
    cdef bint made
    cdef const int64_t[:, ::1] rows, operands, numbers, terms, turns

    def __init__(self, steps, operands, terms, turns, numbers, int64_t scratchpad_bytes=0, Stream before=None):
        if self.steps:
            raise ProgramError("a Stream is made once; make another one")
        if not 0 <= scratchpad_bytes < 1 << 48:
            raise ProgramError(f"a scratchpad of {scratchpad_bytes} bytes; it has 0 to 2^48")
        if before is not None and (not before.made or before.before is not None):
            raise ProgramError("what comes before a stream is made, and has nothing before it")
        self.rows = checked_table(steps, STEP_COLUMNS, "steps")
        self.operands = checked_table(operands, OPERAND_COLUMNS, "operands")
        self.numbers = checked_table(numbers, NUMBER_COLUMNS, "numbers")
        self.terms = checked_table(terms, TERM_COLUMNS, "terms")
        self.turns = checked_table(turns, TERM_COLUMNS, "turns")
        self.scratchpad_bytes, self.before = scratchpad_bytes, before
        self.base_count = 1
        self._check_tables()
        self._nest()
        self._place()
        self.rows = self.operands = self.numbers = self.terms = self.turns = None
        self.made = True

    def __dealloc__(self):
        free(self.steps)
        free(self.moves)
        free(self.swaps)
        free(self.starts)
        free(self.bases)

    cdef int _range(self, const int64_t[:, ::1] table, int64_t row, int column, int64_t limit,
                    str name) except -1:
        """Refuses a (first, count) that is not in a table of ``limit`` rows."""
        cdef int64_t first = table[row, column], count = table[row, column + 1]
        if first < 0 or count < 0 or first > limit or count > limit - first:
            raise ProgramError(
                f"row {row} names {count} {name} from {first} on; there are {limit} {name}"
            )
        return 0

    cdef int _check_tables(self) except -1:
        cdef int64_t i
        for i in range(self.operands.shape[0]):
            if not -1 <= self.operands[i, 0] < 1 << 30:
                raise ProgramError(f"operand {i} has base {self.operands[i, 0]}; it is −1 to 2^30")
            self.base_count = max(self.base_count, self.operands[i, 0] + 1)
            self._range(self.operands, i, 2, self.terms.shape[0], "terms")
            self._range(self.operands, i, 4, self.turns.shape[0], "turns")
        for i in range(self.numbers.shape[0]):
            self._range(self.numbers, i, 1, self.terms.shape[0], "terms")
        return 0

    cdef int _nest(self) except -1:
        """Steps without their moves and swaps: kinds, kernels, where blocks end."""
        cdef int64_t i, count = self.rows.shape[0], opener
        cdef int64_t[14] open_at
        cdef int depth = 0
        cdef NativeStep *s
        self.steps = <NativeStep *> room(count, sizeof(NativeStep))
        self.steps[count].kind = STEP_HALT
        for i in range(count):
            s = &self.steps[i]
            if not STEP_RUN <= self.rows[i, 0] <= STEP_CASE:
                raise ProgramError(f"step {i} is of kind {self.rows[i, 0]}; kinds are 0 to 3")
            s.kind = <int32_t> self.rows[i, 0]
            if s.kind == STEP_RUN:
                self._take_run(i, s, depth)
            elif s.kind == STEP_END:
                if depth == 0 or self.rows[i, 1] != depth - 1:
                    raise ProgramError(
                        f"step {i} ends level {self.rows[i, 1]} while {depth} blocks are open; end "
                        "the innermost one"
                    )
                depth -= 1
                opener = open_at[depth]
                self.steps[opener].jump = <int32_t> (i + 1)
                s.trips, s.level, s.jump = self.steps[opener].trips, depth, <int32_t> (opener + 1)
            else:
                self._take_block(i, s, depth)
                open_at[depth] = i
                depth += 1
        if depth:
            raise ProgramError(f"{depth} blocks are open at the end; the last began at step {open_at[depth - 1]}")
        self._check_cases()
        return 0

    cdef int _take_run(self, int64_t i, NativeStep *s, int depth) except -1:
        if self.rows[i, 1] == 0:
            raise ProgramError(f"step {i} calls the kernel at address 0; compile it first")
        s.kernel = <NativeKernel> <uintptr_t> <uint64_t> self.rows[i, 1]
        self._range(self.rows, i, 2, self.operands.shape[0], "operands")
        self._range(self.rows, i, 4, self.numbers.shape[0], "numbers")
        if self.value_count + self.rows[i, 3] + self.rows[i, 5] >= 1 << 31:
            raise ProgramError(f"more than 2^31 operands and numbers at step {i}; split the program")
        s.operands = <int32_t> self.value_count
        s.numbers = <int32_t> (self.value_count + self.rows[i, 3])
        self.value_count += self.rows[i, 3] + self.rows[i, 5]
        return 0

    cdef int _take_block(self, int64_t i, NativeStep *s, int depth) except -1:
        cdef int64_t level = self.rows[i, 2]
        s.trips = self.rows[i, 1]
        if s.kind == STEP_CASE:
            level = self.rows[i, 4]
            s.trips, s.low, s.high = 1, self.rows[i, 2], self.rows[i, 3]
            if not 0 <= self.rows[i, 1] < PARAMETERS:
                raise ProgramError(f"step {i} asks parameter {self.rows[i, 1]} of {PARAMETERS}")
            s.parameter = <int32_t> self.rows[i, 1]
            self.dispatches = True
        if level != depth or depth >= NATIVE_LEVELS:
            raise ProgramError(
                f"step {i} opens level {level} inside of {depth} blocks; a level is the number of "
                f"blocks around it, below {NATIVE_LEVELS}"
            )
        if s.trips < 0:
            raise ProgramError(f"step {i} loops {s.trips} times; it takes 0 or more")
        s.level = depth
        return 0

    cdef int _check_cases(self) except -1:
        cdef int64_t i
        for i in range(self.rows.shape[0]):
            if self.rows[i, 0] == STEP_CASE and self.steps[i].jump - 1 != self.rows[i, 5]:
                raise ProgramError(
                    f"step {i} says that it ends at step {self.rows[i, 5]}; "
                    f"it does at {self.steps[i].jump - 1}"
                )
        return 0

    cdef int _place(self) except -1:
        """Where values begin, then which of them each block moves and swaps."""
        cdef int64_t i, moves = 0, swaps = 0
        cdef NativeStep *s
        self.starts = <uint64_t *> room(self.value_count, sizeof(uint64_t))
        self.bases = <int64_t *> room(self.value_count, sizeof(int64_t))
        self._spread(False)
        for i in range(self.rows.shape[0]):
            s = &self.steps[i]
            if s.kind == STEP_LOOP or s.kind == STEP_CASE:
                if moves + s.moves >= 1 << 31 or swaps + s.swaps >= 1 << 31:
                    raise ProgramError(f"more than 2^31 terms at step {i}; split the program")
                s.move, moves = <int32_t> moves, moves + s.moves
                s.swap, swaps = <int32_t> swaps, swaps + s.swaps
                s.turn, self.turn_count = <int32_t> self.turn_count, self.turn_count + (s.swaps > 0)
                s.moves = s.swaps = 0
        self.moves = <Move *> room(moves, sizeof(Move))
        self.swaps = <Swap *> room(swaps, sizeof(Swap))
        self._spread(True)
        for i in range(self.rows.shape[0]):
            s = &self.steps[i]
            if s.kind == STEP_END:
                s.move, s.moves = self.steps[s.jump - 1].move, self.steps[s.jump - 1].moves
                s.swap, s.swaps = self.steps[s.jump - 1].swap, self.steps[s.jump - 1].swaps
                s.turn = self.steps[s.jump - 1].turn
        return 0

    cdef int _spread(self, bint fill) except -1:
        """Counts the moves and swaps of every block, or fills them in."""
        cdef int64_t i, k, value, row
        cdef int64_t[14] open_at
        cdef int depth = 0
        cdef NativeStep *s
        for i in range(self.rows.shape[0]):
            s = &self.steps[i]
            if s.kind == STEP_LOOP or s.kind == STEP_CASE:
                open_at[depth] = i
                depth += 1
            elif s.kind == STEP_END:
                depth -= 1
            else:
                for k in range(self.rows[i, 3]):
                    value, row = s.operands + k, self.rows[i, 2] + k
                    self.bases[value] = self.operands[row, 0]
                    if self.operands[row, 0] == -1:
                        continue
                    self.starts[value] = <uint64_t> self.operands[row, 1]
                    self._move(self.operands, row, 2, value, open_at, depth, fill)
                    self._swap(row, value, open_at, depth, fill)
                for k in range(self.rows[i, 5]):
                    value, row = s.numbers + k, self.rows[i, 4] + k
                    self.bases[value] = -1
                    self.starts[value] = <uint64_t> self.numbers[row, 0]
                    self._move(self.numbers, row, 1, value, open_at, depth, fill)
        return 0

    cdef int _move(self, const int64_t[:, ::1] table, int64_t row, int column, int64_t value,
                   int64_t *open_at, int depth, bint fill) except -1:
        cdef int64_t i, level
        cdef uint64_t step
        cdef NativeStep *block
        cdef Move *move
        for i in range(table[row, column], table[row, column] + table[row, column + 1]):
            step, level = <uint64_t> self.terms[i, 0], self.terms[i, 1]
            self._check_level("term", i, level, depth)
            block = &self.steps[open_at[level]]
            if step == 0 or block.trips <= 1:
                continue
            if fill:
                move = &self.moves[block.move + block.moves]
                move.step, move.value = step, value
                move.rewind = step * <uint64_t> (block.trips - 1)
            block.moves += 1
        return 0

    cdef int _swap(self, int64_t row, int64_t value, int64_t *open_at, int depth,
                   bint fill) except -1:
        cdef int64_t i, level
        cdef NativeStep *block
        for i in range(self.operands[row, 4], self.operands[row, 4] + self.operands[row, 5]):
            level = self.turns[i, 1]
            self._check_level("turn", i, level, depth)
            block = &self.steps[open_at[level]]
            if self.turns[i, 0] == 0:
                continue
            if fill:
                self.swaps[block.swap + block.swaps].slot = <uint64_t> self.turns[i, 0]
                self.swaps[block.swap + block.swaps].value = value
            block.swaps += 1
        return 0

    cdef int _check_level(self, str name, int64_t row, int64_t level, int depth) except -1:
        if not 0 <= level < depth:
            raise ProgramError(
                f"{name} {row} depends on level {level} where {depth} blocks are open; levels are "
                f"those of open blocks"
            )
        return 0
