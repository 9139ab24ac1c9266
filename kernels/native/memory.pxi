# Memory of runs that go on at once: compiled, so that no signal comes between a block and who has it.

OVERDUE_SECONDS = OVERDUE_NS * 1e-9


cdef class RunMemory:
    """Blocks of memory for runs: ``maker`` makes one, and there are ``most`` of them. Safe to use from several threads.

    The first is made at once, others when callers meet. Who finds none waits until another run ends; the first of those
    who wait is due after ``OVERDUE_SECONDS``. Raises what ``maker`` raises for the first one; where there is no memory for
    another (``MemoryError``, ``OSError``), callers wait.
    """

    cdef object maker, free, line
    cdef readonly int64_t made, most
    cdef int64_t waits_since
    cdef object __weakref__

    def __init__(self, maker, int64_t most):
        self.maker, self.most = maker, most
        self.free = SimpleQueue()
        self.free.put(maker())
        self.made = 1
        self.line = RLock()

    cpdef take(self):
        """Return a block that no other run has."""
        if not self.waits_since or now_ns() - self.waits_since < OVERDUE_NS:
            try:
                return self.free.get_nowait()
            except Empty:
                pass
        if self.made < self.most:
            self.made += 1
            try:
                return self.maker()
            except (MemoryError, OSError):
                self.made -= 1
            except BaseException:
                self.made -= 1
                raise
        with self.line:  # a signal's handler may come to it again
            self.waits_since = now_ns()
            try:
                return self.free.get()
            finally:
                self.waits_since = 0

    cpdef give(self, block):
        """Take a block back."""
        self.free.put(block)

    def begin_anew(self):
        """Forget the runs of other threads, in a forked child, which has none: their blocks are not given back."""
        self.line = RLock()
        self.waits_since = 0
        self.made = self.free.qsize()
