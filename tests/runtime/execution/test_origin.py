"""Groups tell how they came into the plan: of the first plan, merged or split off."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from autotune.runtime.execution.origin import Origin, descend
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable, compile_table
from tests.runtime import runtime_case as case

GRAPH = case.network()
PAIR = ("product", "squash")


def table(*fused: tuple[str, str]) -> ProgramTable:
    return compile_table(GRAPH, case.choices(GRAPH, *fused), case.SPEC, ProgramCache())


def origins(found: ProgramTable) -> dict[tuple[str, ...], Origin]:
    layout = found.layout
    return dict(zip((s.operators for s in layout.steps), layout.origins, strict=True))


def test_groups_of_swapped_plans_are_merged_and_de_fused() -> None:
    current = CurrentTable(table())
    assert set(origins(current.current).values()) == {Origin.ORIGINAL}
    merged = origins(current.swap(table(PAIR)))
    assert merged.pop(PAIR) is Origin.MERGED
    assert set(merged.values()) == {Origin.ORIGINAL}
    split = origins(current.swap(table()))
    assert {split.pop((name,)) for name in PAIR} == {Origin.DEFUSED}
    assert set(split.values()) == {Origin.ORIGINAL}
    again = origins(current.swap(table(("weigh", "flip"))))
    assert again["product",] is Origin.DEFUSED, "an origin stays with its group"


def test_origins_that_a_table_tells_itself_stay() -> None:
    told = replace(table(PAIR), origins={PAIR: Origin.DEFUSED})
    assert origins(CurrentTable(table()).swap(told))[PAIR] is Origin.DEFUSED


PARTITIONS = st.lists(st.integers(0, 3), min_size=6, max_size=6)


@given(PARTITIONS, PARTITIONS)
def test_any_partition_descends_from_any_other(one: list[int], two: list[int]) -> None:
    before, after = (
        {tuple(str(i) for i, home in enumerate(homes) if home == h) for h in set(homes)}
        for homes in (one, two)
    )
    found = descend(dict.fromkeys(before, Origin.ORIGINAL), after)
    assert found.keys() == after
    for group, origin in found.items():
        parents = {old for old in before if set(old) & set(group)}
        expected = (
            Origin.ORIGINAL
            if group in before
            else (Origin.MERGED if len(parents) > 1 else Origin.DEFUSED)
        )
        assert origin is expected
