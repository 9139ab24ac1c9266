# Where each opcode's fields stand in a row of a program's table; the headers decode by it.

cdef Layout LAYOUTS[64]

_OPERAND_NAMES = {
    opcode: [name for name, _ in operands] for opcode, operands in OPERANDS.items()
}


def _narrow_and_fused():
    """Groups of number formats and of fused instructions."""
    return [
        ("format",),
        ("scale",),
        ("adds",),
        ("r_m", "r_n1", "r_n0"),
        ("a_format", "b_format", "a_zero", "b_zero"),
        tuple(f"{part}{d}" for d in range(MAX_RANK) for part in ("axis", "hop")),
        ("size0", "size1", "dst_stride0", "dst_stride1", "src_stride0", "src_stride1", "state_stride0"),
        ("accumulate", "k_level"),
        tuple(f"stage{i}_{part}" for i in range(CHAIN_STAGES) for part in ("kind", "fn", "p0", "p1")),
        ("dst_format", "src_format", "divide", "scale", "src_zero", "dst_zero"),
        ("forward",),
        ("parameter", "low", "high"),
        ("transform",),
        ("biased",),
        ("size2", "size3", "size4"),
        ("src_stride0",),
    ]


def _groups(opcode):
    """Per Layout slot the names of its neighbouring fields, for one opcode."""
    names = _OPERAND_NAMES.get(opcode, [])
    parts = ("base", "step0", "level0", "step1", "level1", "slot", "turn")
    dims = range(MAX_RANK)
    groups = [("wait0", "wait1", "wait2"), ("signal0", "signal1", "signal2"), ("fn",), ("p0",), ("p1",)]
    if opcode in (Opcode.LOAD, Opcode.GATHER, Opcode.LOOKUP):
        groups[3] = ("pad",)
    is_reduction = opcode is Opcode.REDUCE
    padded = [*names, None, None, None, None, None]
    groups += [tuple(f"{name}_{part}" for part in parts) for name in padded[:5]]
    groups += [tuple(f"{name}_stride{d}" for d in dims) for name in padded[:4]]
    return [
        *groups,
        tuple(f"size{d}" for d in dims),
        tuple(f"{part}{d}" for d in dims for part in ("coord", "step", "level")),
        tuple(f"extent{d}" for d in dims),
        ("tensor",),
        ("m", "n1", "n0", "k2", "k1", "k0"),
        ("a_m", "a_k2", "a_k1", "a_k0", "b_k2", "b_k1", "b_k0", "b_n1", "b_n0", "c_m", "c_n1", "c_n0"),
        ("none",) if is_reduction else ("accumulate", "epilogue", "k_level", "bias_axis"),
        ("accumulate",) if is_reduction else ("none",),
        ("trips",),
        ("level",),
        ("unit",),
        ("semaphore",),
        *_narrow_and_fused(),
    ]


cdef void _fill_layouts() except *:
    cdef int opcode, slot
    for row in INSTRUCTIONS.values():
        index = field_index(row.opcode)
        opcode = int(row.opcode)
        groups = _groups(row.opcode)
        assert len(groups) == GROUPS
        LAYOUTS[opcode].unit = int(row.unit)
        for slot, names in enumerate(groups):
            first = index.get(names[0], -1)
            places = [index.get(name, -1) for name in names]
            if first >= 0 and places != list(range(first, first + len(names))):
                first = -1  # a row with its own arrangement of these fields
            LAYOUTS[opcode].at[slot] = first


_fill_layouts()
