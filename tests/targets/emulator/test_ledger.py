"""The energy ledger adds up exactly in every view, however the counts are split."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import SpecError
from autotune.targets.emulator.ledger import Action, EnergyTable, Instruction, Ledger, Posting

ACTIONS = tuple(
    Action(component, name) for component in ("dram", "mac", "spad") for name in ("read", "leak")
)
WHOLE_PRICES = st.integers(0, 10**6)
PRICES = WHOLE_PRICES | st.fractions(0, 1000, max_denominator=1000)
COUNTS = st.dictionaries(st.sampled_from(ACTIONS), st.integers(0, 10**12))
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 5) | st.sampled_from("ab"), COUNTS))
Rows = list[tuple[Instruction, dict[Action, int]]]


def tables(prices: st.SearchStrategy[int | Fraction] = PRICES) -> st.SearchStrategy[EnergyTable]:
    return st.fixed_dictionaries(dict.fromkeys(ACTIONS, prices)).map(EnergyTable)


@given(tables(), ROWS)
def test_every_view_adds_up_to_the_total(table: EnergyTable, rows: Rows) -> None:
    ledger = Ledger(table).post_each(rows)
    assert sum(posting.energy_fj for posting in ledger.postings) == ledger.total_fj
    for view in (ledger.by_component(), ledger.by_action(), ledger.by_instruction()):
        assert sum(view.values()) == ledger.total_fj
        assert all(type(energy) is int and energy >= 0 for energy in view.values())
    assert set(ledger.by_instruction()) == {key for key, counts in rows if counts}


@given(tables(), ROWS)
def test_each_action_is_within_half_a_femtojoule_of_the_exact_product(
    table: EnergyTable, rows: Rows
) -> None:
    ledger = Ledger(table).post_each(rows)
    for action, energy in ledger.by_action().items():
        count = sum(counts.get(action, 0) for _, counts in rows)
        assert abs(energy - table.prices_fj[action] * count) <= Fraction(1, 2)
    for posting in ledger.postings:
        exact = table.prices_fj[posting.action] * posting.count
        assert abs(posting.energy_fj - exact) < 1


@given(tables(WHOLE_PRICES), ROWS)
def test_whole_prices_are_never_rounded(table: EnergyTable, rows: Rows) -> None:
    for posting in Ledger(table).post_each(rows).postings:
        assert posting.energy_fj == table.prices_fj[posting.action] * posting.count


@given(tables(), ROWS)
def test_splitting_counts_over_instructions_moves_no_energy(table: EnergyTable, rows: Rows) -> None:
    whole: dict[Action, int] = {}
    for _, counts in rows:
        for action, count in counts.items():
            whole[action] = whole.get(action, 0) + count
    split, at_once = Ledger(table).post_each(rows), Ledger(table).post(whole)
    assert split.by_action() == at_once.by_action()
    assert split.by_component() == at_once.by_component()
    assert split.counts() == whole


@given(tables(), ROWS)
def test_posting_one_by_one_or_together_is_the_same(table: EnergyTable, rows: Rows) -> None:
    ledger = Ledger(table)
    for instruction, counts in rows:
        ledger = ledger.post(counts, instruction)
    assert ledger == Ledger(table).post_each(rows)


def test_a_leak_below_one_femtojoule_is_not_lost_by_posting_it_cycle_by_cycle() -> None:
    leak = Action("spad", "leak")
    table = EnergyTable({leak: Fraction("0.134")})
    ledger = Ledger(table).post_each((cycle, {leak: 1}) for cycle in range(1000))
    assert ledger.total_fj == 134


def test_posting_leaves_the_ledger_before_it_as_it_was() -> None:
    table = EnergyTable({ACTIONS[0]: 3})
    before = Ledger(table)
    after = before.post({ACTIONS[0]: 2})
    assert (before.total_fj, after.total_fj) == (0, 6)


def test_a_table_does_not_follow_later_changes_of_the_mapping_it_was_made_from() -> None:
    prices: dict[Action, int | Fraction] = {ACTIONS[0]: 3}
    table = EnergyTable(prices)
    prices[ACTIONS[0]] = 4
    assert Ledger(table).post({ACTIONS[0]: 1}).total_fj == 3


@pytest.mark.parametrize("count", [-1, 1.5, True, "3", None])
def test_a_count_that_is_no_whole_number_from_0_up_is_refused(count: object) -> None:
    ledger = Ledger(EnergyTable({ACTIONS[0]: 3})).post({ACTIONS[0]: 5})
    with pytest.raises(SpecError, match=r"dram\.read of instruction load: count .* from 0 up"):
        ledger.post({ACTIONS[0]: count}, "load")
    with pytest.raises(SpecError, match="from 0 up"):
        Posting(ACTIONS[0], count, 0)


@pytest.mark.parametrize(
    ("missing", "hint"),
    [(Action("dram", "erase"), r"dram\.read, dram\.leak"), (Action("disk", "read"), "dram, mac")],
)
def test_an_action_without_a_price_is_refused_with_the_ones_that_exist(
    missing: Action, hint: str
) -> None:
    ledger = Ledger(EnergyTable({ACTIONS[0]: 3, ACTIONS[1]: 1, ACTIONS[2]: 2}))
    with pytest.raises(SpecError, match=rf"{missing}: no energy in the table, which has {hint}"):
        ledger.post({missing: 1})


@pytest.mark.parametrize(
    ("price", "message"), [(-1, "below 0"), (Fraction(-1, 9), "below 0"), (0.1, "inexact")]
)
def test_a_table_refuses_a_price_that_is_negative_or_inexact(
    price: int | Fraction, message: str
) -> None:
    with pytest.raises(SpecError, match=rf"dram\.read: energy .*{message}"):
        EnergyTable({ACTIONS[0]: price})


def test_an_action_without_a_component_or_a_name_is_refused() -> None:
    for component, name in (("", "read"), ("dram", "")):
        with pytest.raises(SpecError, match="empty"):
            Action(component, name)


def test_a_ledger_with_a_made_up_energy_is_not_made() -> None:
    with pytest.raises(AssertionError, match="7 fJ charged, 6 fJ due"):
        Ledger(EnergyTable({ACTIONS[0]: 3}), (Posting(ACTIONS[0], 2, 7),))
