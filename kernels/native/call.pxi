# A plan's inputs and outputs by name: one call of Python a run.


cdef class Call:
    """A plan with its tensors by name, for callers whose arrays are as programs take them.

    ``memory`` gives each run the array of pointer 0 (``take``), and gets it back (``give``).
    ``inputs`` are pairs (name, shape) of the pointers that follow, ``outputs``
    triples (name, shape, maker) of those behind them: a maker is a function that returns a float32 array of the shape, or
    None where a new one will do. A run checks the inputs, makes the outputs and runs the plan, by compiled code: in
    Python that takes as long as a tenth of a small network, and several times as long when the network before has left
    nothing of Python in the caches.

    Raises ``InputError`` where the plan needs another number of pointers, or runtime parameters.
    """

    cdef Plan plan
    cdef object memory
    cdef tuple names, made, makers
    cdef int64_t count, outputs
    cdef int *ranks
    cdef cnp.npy_intp *extents

    def __init__(self, Plan plan not None, memory not None, inputs, outputs):
        if self.ranks:
            raise ProgramError("a Call is made once; make another one")
        tensors = [(name, tuple(shape)) for name, shape in inputs]
        self.count, self.names = len(tensors), tuple(name for name, _ in tensors)
        tensors += [(name, tuple(shape)) for name, shape, _ in outputs]
        self.made = tuple(name for name, *_ in outputs)
        self.makers = tuple(maker for *_, maker in outputs)
        self.outputs = len(self.made)
        if plan.pointer_count > 1 + len(tensors):
            raise InputError(f"{1 + len(tensors)} tensors are given; the plan has {plan.pointer_count} pointers")
        if plan.dispatches:
            raise InputError("the plan dispatches on runtime parameters, which a Call has none of")
        self.plan, self.memory = plan, memory
        self.ranks = <int *> room(len(tensors), sizeof(int))
        self.extents = <cnp.npy_intp *> room(sum(len(shape) for _, shape in tensors), sizeof(cnp.npy_intp))
        cdef int64_t place = 0, i
        for i, (_, shape) in enumerate(tensors):
            self.ranks[i] = len(shape)
            for extent in shape:
                self.extents[place] = extent
                place += 1

    def __dealloc__(self):
        free(self.ranks)
        free(self.extents)

    def run(self, inputs):
        """Run once. Return the outputs by name, and the nanoseconds of each program.

        Return None, and run nothing, unless ``inputs`` is a dict of one C-contiguous float32 array of the right shape
        for each input, and of nothing else. Raises ``MemoryError`` as ``Plan.run`` does.
        """
        cdef uint64_t *sources
        cdef cnp.npy_intp programs = self.plan.count
        cdef cnp.ndarray times
        cdef dict outputs
        cdef list held = []  # what a run reads stays, whatever becomes of the dict
        if not PyDict_CheckExact(inputs) or PyDict_Size(inputs) != self.count:
            return None
        sources = <uint64_t *> room(FROM_POINTERS + 1 + self.count + self.outputs, sizeof(uint64_t))
        try:
            outputs = self._place(<dict> inputs, sources + FROM_POINTERS, held)
            if outputs is None:
                return None
            times = cnp.PyArray_EMPTY(1, &programs, cnp.NPY_INT64, 0)
            self.plan._run_in(self.memory, sources, &self.plan.zeros[0], <int64_t *> cnp.PyArray_DATA(times), False)
        finally:
            free(sources)
        return outputs, times

    cdef dict _place(self, dict inputs, uint64_t *pointers, list held):
        """The outputs' arrays by name, and where all tensors but the memory lie; None where an input is not as programs take it.
        ``held`` gets the inputs."""
        cdef cnp.npy_intp *shape = self.extents
        cdef PyObject *found
        cdef cnp.ndarray array
        cdef int64_t i
        for i in range(self.count):
            found = PyDict_GetItemWithError(inputs, self.names[i])
            if not found or not cnp.PyArray_CheckExact(<object> found):
                return None
            array = <cnp.ndarray> found
            if not is_plain(array, self.ranks[i], shape):
                return None
            held.append(array)
            pointers[1 + i] = <uint64_t> cnp.PyArray_DATA(array)
            shape += self.ranks[i]
        outputs = {}
        for i in range(self.count, self.count + self.outputs):
            maker = self.makers[i - self.count]
            if maker is None:
                array = cnp.PyArray_EMPTY(self.ranks[i], shape, cnp.NPY_FLOAT32, 0)
            else:
                array = maker()
            outputs[self.made[i - self.count]] = array
            pointers[1 + i] = <uint64_t> cnp.PyArray_DATA(array)
            shape += self.ranks[i]
        return outputs


cdef bint is_plain(cnp.ndarray array, int rank, const cnp.npy_intp *shape):
    """Whether an array is a C-contiguous float32 one of a shape."""
    cdef int i
    if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT32 or cnp.PyArray_NDIM(array) != rank:
        return False
    if not cnp.PyArray_ISNOTSWAPPED(array) or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        return False
    for i in range(rank):
        if cnp.PyArray_DIM(array, i) != shape[i]:
            return False
    return True
