"""The ledger agrees with the energies that Timeloop printed for two published designs."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from autotune.errors import SpecError
from autotune.targets.emulator.ledger import Action, EnergyTable, Ledger
from benchmarks.peers.accelergy import read_ert, read_timeloop_ledger
from benchmarks.peers.timeloop_stats import parse_action_counts, read_action_counts

REFERENCE = Path(__file__).parent / "reference"
DESIGNS = ("eyeriss_like", "simple_weight_stationary")
ALLOWED = 1e-3
"""Relative deviation from a printed energy: the project's bound."""


def ert_of(design: str) -> Path:
    return REFERENCE / f"{design}.ERT_summary.yaml"


def stats_of(design: str) -> Path:
    return REFERENCE / f"{design}.stats.txt"


def ledger_of(design: str) -> Ledger:
    return read_timeloop_ledger(ert_of(design), stats_of(design))


def printed_per_compute_fj(design: str) -> tuple[dict[str, float], int]:
    """Timeloop's own summary: femtojoules per multiply-accumulate by component, and how many."""
    summary = stats_of(design).read_text().partition("Summary Stats")[2]
    computes = int(re.findall(r"Computes = (\d+)", summary)[0])
    rows = re.findall(r"^    (\w+) += ([0-9.]+)$", summary, re.MULTILINE)
    return {name: float(energy) for name, energy in rows}, computes


def printed_levels_pj(design: str) -> dict[str, tuple[float, int]]:
    """Energy and leakage lines of each level, added: picojoules, and how many lines there were."""
    text = stats_of(design).read_text().partition("\nNetworks\n")[0]
    names_and_bodies = re.split(r"=== (\w+) ===", text)[1:]
    found = {}
    for name, body in zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True):
        lines = re.findall(
            r"^ +(?:Leakage e|E)nergy \(total\) *: ([0-9.]+) pJ$", body, re.MULTILINE
        )
        found[name] = sum(map(float, lines)), len(lines)
    return found


@pytest.mark.parametrize("design", DESIGNS)
def test_every_component_and_the_total_agree_with_timeloops_summary(design: str) -> None:
    ledger = ledger_of(design)
    printed, computes = printed_per_compute_fj(design)
    total = printed.pop("Total")
    found = {name: energy / computes for name, energy in ledger.by_component().items()}
    assert set(found) == set(printed)
    assert len(found) == {"eyeriss_like": 6, "simple_weight_stationary": 7}[design]
    for name, energy in printed.items():
        assert found[name] == pytest.approx(energy, rel=ALLOWED), name
        assert abs(found[name] - energy) <= 0.00501, f"{name}: more than half its last digit"
    assert ledger.total_fj / computes == pytest.approx(total, rel=ALLOWED)
    assert abs(ledger.total_fj / computes - total) <= 0.00501


@pytest.mark.parametrize("design", DESIGNS)
def test_every_level_agrees_to_the_last_digit_that_timeloop_prints(design: str) -> None:
    found = ledger_of(design).by_component()
    printed = printed_levels_pj(design)
    assert set(found) == set(printed)
    for name, (energy_pj, lines) in printed.items():
        assert abs(found[name] / 1000 - energy_pj) <= 0.00501 * lines, name


def test_eyeriss_has_the_published_figures() -> None:
    ledger = ledger_of("eyeriss_like")
    computes = ledger.counts()[Action("mac", "compute")]
    found = {name: round(energy / computes, 2) for name, energy in ledger.by_component().items()}
    assert found == {
        "mac": 207.69, "psum_spad": 386.77, "weights_spad": 1006.69, "ifmap_spad": 112.37,
        "shared_glb": 375.27, "DRAM": 3380.86,
    }  # fmt: skip
    assert round(ledger.total_fj / computes, 2) == 5469.65


@pytest.mark.parametrize("design", DESIGNS)
def test_the_energies_in_the_statistics_are_not_read(design: str) -> None:
    """Other energies in the file leave the ledger as it is; other counts do not."""
    text = stats_of(design).read_text()
    assert parse_action_counts(re.sub(r"[0-9.]+ pJ", "0.00 pJ", text)) == parse_action_counts(text)
    fewer = text.replace("Computes (total)        : 10838016", "Computes (total)        : 1")
    assert parse_action_counts(fewer) != parse_action_counts(text)


def test_counts_are_blocks_per_data_space_and_kind_times_instances() -> None:
    counts = read_action_counts(stats_of("simple_weight_stationary"))
    assert counts[Action("pe_spad", "read")] == 2016 * 12
    assert counts[Action("pe_spad", "leak")] == 903168 * 12
    # 151875 words of inputs are 37968.75 blocks of 4: the last one is a whole access
    assert counts[Action("DRAM", "read")] == 864 // 4 + 37969
    assert counts[Action("DRAM", "update")] == 401408 // 4
    assert Action("DRAM", "write") not in counts
    assert Action("mac", "leak") not in counts


def test_prices_keep_every_digit_of_the_table() -> None:
    prices = read_ert(ert_of("eyeriss_like")).prices_fj
    assert prices[Action("psum_spad", "leak")] == Fraction("0.134")
    assert prices[Action("shared_glb", "read")] == Fraction("18183.829")
    assert len(prices) == 4 * 5 + 2


def level(name: str, block: int, **spaces: tuple[int, int, int, int]) -> str:
    """A level of 677,376 cycles; a space gives instances, scalar reads, fills and updates."""
    kinds = ("reads", "fills", "updates")
    keys = ("Utilized instances (max)", *(f"Scalar {kind} (per-instance)" for kind in kinds))
    lines = [f"=== {name} ===", "SPECS", f"Block size: {block}", "STATS", "Cycles: 677376"]
    for space, values in spaces.items():
        lines += [f"{space}:", *(f"{k}: {v}" for k, v in zip(keys, values, strict=True))]
    return "\n".join([*lines, ""])


def test_the_rules_hold_on_a_third_design_from_which_none_was_found() -> None:
    """Two levels of ``simple_output_stationary`` from the same exercises; energies it printed."""
    counts = parse_action_counts(
        level("pe_spad", 1, Outputs=(16, 652288, 0, 677376))
        + level("shared_glb", 4, Weights=(1, 2709504, 864, 0), Inputs=(1, 677376, 151875, 0))
        + "Networks\n"
    )
    prices_pj = {
        "pe_spad": {"read": "0.660171", "update": "1.562612", "leak": "2.1e-05"},
        "shared_glb": {"read": "32.342452", "write": "26.121552", "leak": "0.003351"},
    }
    table = EnergyTable({
        Action(component, name): Fraction(price) * 1000
        for component, prices in prices_pj.items() for name, price in prices.items()
    })  # fmt: skip
    found = Ledger(table).post(counts).by_component()
    assert found["pe_spad"] / 1000 == pytest.approx(23825559.80 + 227.60, abs=0.0101)
    printed = 21913643.02 + 6468809.40 + 2269.89
    assert found["shared_glb"] / 1000 == pytest.approx(printed, abs=0.0151)


ERT = """\
ERT_summary:
  table_summary:
    - name: top.mac[1..4]
      actions:
        - name: compute
          energy: 0.5
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.5", "cheap", r"table_summary\[0\] \(top\.mac\[1\.\.4\]\)\.actions\[0\]\.energy: 'cheap'"),
        ("0.5", "-0.5", "-0.5 pJ is not in 0"),
        ("0.5", ".nan", "not a number"),
        ("0.5", "NaN", "NaN pJ is not in 0"),
        ("0.5", "1e999999", "not in 0"),
        ("0.5", "1e-999999", "more than 30 decimals"),
        ("0.5", "[1]", "energy: list is not a text"),
        ("energy", "power", r"actions\[0\]\.energy: missing"),
        ("ERT_summary", "ART_summary", "ERT_summary: missing"),
        ("table_summary", "tables", "ERT_summary.table_summary: missing"),
        ("- name: top.mac[1..4]\n      actions", "- mac\n    - actions", r"\[0\]: str is not a mapping"),
        ("0.5", "0.5\n        - name: compute\n          energy: 1", "mac.compute was given before"),
        ("0.5", "[0.5", "line 7: not valid YAML"),
        (ERT, "[" * 5000, "nested too deeply"),
        (ERT, "", "file: NoneType|file: str"),
        (ERT, "\0", "not a text file"),
    ],
)  # fmt: skip
def test_a_broken_table_is_one_line_with_file_and_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(ERT.replace(old, new, 1))
    with pytest.raises(SpecError, match=message) as caught:
        read_ert(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_tag_that_asks_for_a_python_object_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "tagged.yaml"
    path.write_text(ERT.replace("0.5", '!!python/object/apply:os.system ["exit 3"]'))
    with pytest.raises(SpecError, match=r"energy: list is not a text or number"):
        read_ert(path)


STATS = """\
Level 1
-------
=== spad ===

    SPECS
    -----
        Block size                      : 2
        Cluster size                    : 1
        Instances sharing power gating  : 1.00
        Non-power-gated utilization     : 100.00%

    MAPPING
    -------
    Loop nest:
      for M in [0:8)

    STATS
    -----
    Cycles               : 10
    Outputs:
        Utilized instances (max)                 : 3
        Scalar reads (per-instance)              : 5
        Scalar fills (per-instance)              : 0
        Scalar updates (per-instance)            : 4
        Temporal Reduction Energy (total)        : 0.00 pJ
        Address Generation Energy (total)        : 0.00 pJ

Networks
--------

Operational Intensity Stats
---------------------------
"""


def test_a_small_level_counts_by_hand() -> None:
    assert parse_action_counts(STATS) == {
        Action("spad", "read"): 3 * 3,
        Action("spad", "update"): 2 * 3,
        Action("spad", "leak"): 10 * 3,
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (": 5\n", ": many\n", r"line 22: Scalar reads \(per-instance\) of spad Outputs: 'many'"),
        (": 5\n", ": -5\n", "'-5' is not a whole number from 0 up"),
        (": 5\n", ": 5.5\n", "'5.5' is not a whole number"),
        ("Block size                      : 2", "Block size  : 0", "line 7: .*from 1 up"),
        ("        Block size                      : 2\n", "", "line 3: spad has no line 'Block size'"),
        ("    Cycles               : 10\n", "", "line 3: spad has no line 'Cycles'"),
        ("Cluster size                    : 1", "Cluster size : 2", "line 8: .*only 1 is supported"),
        ("power gating  : 1.00", "power gating  : 4.00", "line 9: .*only 1 is supported"),
        (": 100.00%", ": 75.00%", "line 10: .*only 100 is supported"),
        ("Generation Energy (total)        : 0.00", "Generation Energy (total)  : 9.00", "line 26: "),
        ("Networks\n--------\n", "Networks\n--------\nNetwork 0\n", "line 30: network 'Network 0'"),
        ("Networks\n", "", "ends before the section 'Networks'"),
        ("=== spad ===\n", "\n", "no level"),
        ("Networks\n", "=== spad ===\nNetworks\n", "line 28: second level spad"),
    ],
)  # fmt: skip
def test_broken_or_unverified_statistics_are_one_line_with_file_and_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "broken.txt"
    assert old in STATS
    path.write_text(STATS.replace(old, new, 1))
    with pytest.raises(SpecError, match=message) as caught:
        read_action_counts(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_missing_or_not_text_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for read in (read_ert, read_action_counts):
        with pytest.raises(SpecError, match="gone: cannot be read: No such file"):
            read(tmp_path / "gone")
        with pytest.raises(SpecError, match="binary: not a text file"):
            read(binary)


def test_a_table_of_another_design_is_refused_with_both_files() -> None:
    ert, stats = ert_of("eyeriss_like"), stats_of("simple_weight_stationary")
    with pytest.raises(SpecError, match=r"does not fit .*output_activation_reg\.read: no energy"):
        read_timeloop_ledger(ert, stats)
