"""The report page: a machine that tells its clock alone gets rooflines, and no figures made up."""

from __future__ import annotations

from dataclasses import replace

from autotune.report.document import render
from autotune.report.from_search import roofline_note, roofline_rows
from autotune.report.view import PlanCosts
from autotune.runtime.session.host_profile import HostGroup, HostProfile
from autotune.runtime.session.roofline import Limit, Roofs, Work
from autotune.targets.native.linking.step_kinds import StepKind
from tests.report.report_fixture import search_view

PROFILE = HostProfile(
    (
        HostGroup(
            ("c<0>", "r<0>"),
            ("conv", "relu"),
            0.002,
            0.8,
            Work(10**8, 4_000_000, 1_000_000),
            0.001,
            Limit.ARITHMETIC,
            {StepKind.PRODUCT: 0.7, StepKind.COPY: 0.3},
            4,
            "copies (30%)",
        ),
        HostGroup(("j",), ("concat",), 0.0005, 0.2, Work(0, 0, 0), 0.0, Limit.CACHE, {}, 1, "moot"),
    ),
    Roofs(1e11, 2e10, 1e11, 1 << 24),
    7,
    0.003,
)


def test_rows_say_what_the_profile_found() -> None:
    first, second = roofline_rows(PROFILE)
    assert (first.title, first.fraction, first.steps) == (
        "conv + relu",
        0.5,
        "products 70%, copies 30%",
    )
    assert second.fraction is None and second.reason == "moot"
    assert "fastest of 7 runs" in roofline_note(PROFILE)


def test_a_page_with_rooflines_lists_them_instead_of_the_plot() -> None:
    view = replace(
        search_view(groups=3), rooflines=roofline_rows(PROFILE), roofline_note="measured here"
    )
    page, plain = render(view), render(search_view(groups=3))
    assert "Roofline of every group" in page and "Roofline of every group" not in plain
    plot = 'aria-label="Roofline of the groups'
    assert plot in plain and plot not in page
    assert ">copies (30%)</td>" in page and ">2.000</td>" in page and ">50%</td>" in page
    assert "c&lt;0&gt;" in page and "c<0>" not in page
    assert "measured here" in page


def test_what_a_machine_does_not_tell_has_no_card() -> None:
    unknown = PlanCosts(None, None, None)
    view = replace(search_view(groups=3), energy_fj=unknown, dram_bytes=unknown)
    assert "joules, measured" in render(search_view(groups=3))
    page = render(view)
    assert "joules, measured" not in page and "bytes, measured" not in page
    assert "cycles, measured" in page
