"""The report in a real browser: it fits a phone, follows the colour scheme, links, finds and zooms."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from autotune.report.document import render
from tests.report.browser import DARK, LIGHT, asked
from tests.report.report_fixture import search_view

PHONE, DESK = 390, 1400


@cache
def page(groups: int = 57) -> str:
    return render(search_view(groups=groups))


FITS = """
const seen = node => node.getClientRects().length > 0;
const wide = [...document.querySelectorAll("main *")].filter(node => seen(node) &&
  node.getBoundingClientRect().right > innerWidth + 0.5 && !node.closest("svg"));
const texts = [...document.querySelectorAll("svg text")].filter(seen)
  .map(node => 12 * node.ownerSVGElement.getBoundingClientRect().width / node.ownerSVGElement.viewBox.baseVal.width);
const out = [...document.querySelectorAll("svg")].filter(seen).flatMap(svg => {
  const edge = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const at = text.getBoundingClientRect();
    return at.right > edge.right + 2 || at.left < edge.left - 2;
  }).map(text => text.textContent);
});
const scrollers = [...document.querySelectorAll("main *")].filter(node => seen(node) &&
  ["auto", "scroll"].includes(getComputedStyle(node).overflowX)).length;
return {width: document.documentElement.scrollWidth, wide: wide.map(node => node.outerHTML.slice(0, 80)),
        smallest: Math.min(...texts), out, scrollers,
        back: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color};
"""


def luminance(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)`` (WCAG 2.2)."""
    parts = [int(x) / 255 for x in colour[4:-1].split(",")]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_fits_its_window_and_is_legible(tmp_path: Path, width: int, scheme: int) -> None:
    told = asked(page(), FITS, tmp_path, width, scheme)
    assert told["width"] <= width and told["wide"] == [] and told["scrollers"] == 0
    assert told["smallest"] >= 10, "pixels of the smallest text of a drawing"
    assert told["out"] == [], "texts that leave their drawing"
    back, ink = luminance(told["back"]), luminance(told["ink"])
    assert (back < ink) == (scheme == DARK)
    assert (max(back, ink) + 0.05) / (min(back, ink) + 0.05) >= 7, "contrast (WCAG AAA)"


CHOOSE = """
document.querySelector('#groups tr[data-g="7"] td').click();
const seen = node => node.getClientRects().length > 0;
const marks = [...document.querySelectorAll(".chosen")];
const drawings = new Set(marks.filter(seen).filter(mark => mark.ownerSVGElement).map(mark => mark.ownerSVGElement.ariaLabel));
return {groups: [...new Set(marks.map(mark => mark.dataset.g))], drawings: [...drawings].sort(),
        card: document.querySelector("#card h3").textContent, hash: location.hash,
        near: document.querySelectorAll(".edge.near").length,
        hidden: document.getElementById("card").hidden};
"""


@pytest.mark.slow
def test_a_chosen_group_is_marked_in_every_drawing(tmp_path: Path) -> None:
    told = asked(page(), CHOOSE, tmp_path)
    assert told["groups"] == ["7"] and told["hash"] == "#g7" and told["near"] > 0
    assert told["card"].startswith("#7 ") and not told["hidden"]
    assert {"The network, group by group", "The plan over time"} < set(told["drawings"])


FIND = """
const find = document.getElementById("find");
const ask = text => { find.value = text; find.dispatchEvent(new Event("input")); };
const kept = () => [...document.querySelectorAll("#groups tbody tr")].filter(row => row.getClientRects().length).map(row => row.dataset.g);
ask("#12"); const number = kept();
ask("max_pool"); const kind = kept(), count = document.getElementById("count").textContent;
const all = [...document.querySelectorAll("#groups tbody tr")].filter(row => row.dataset.names.includes("max_pool")).length;
ask("no such thing"); const none = kept();
ask(""); const again = kept().length;
return {number, kind: kind.length, all, count, none, again};
"""


@pytest.mark.slow
def test_groups_are_found_by_number_and_operator(tmp_path: Path) -> None:
    told = asked(page(), FIND, tmp_path)
    assert told["number"] == ["12"] and told["none"] == [] and told["again"] == 57
    assert told["kind"] == told["all"] > 0 and told["count"] == f"{told['all']} of 57 groups"


ZOOM = """
const svg = [...document.querySelectorAll("#canvas svg")].find(one => one.getClientRects().length);
const box = () => [svg.viewBox.baseVal.width, svg.viewBox.baseVal.x];
const before = box();
document.querySelector('[data-zoom="1.25"]').click(); document.querySelector('[data-zoom="1.25"]').click();
const near = box();
document.querySelector('[data-zoom="0"]').click();
document.querySelector('#groups th[data-sort]:nth-of-type(3)').click();
const shown = [...document.querySelectorAll("#groups tbody tr")].map(row => Number(row.cells[2].dataset.value));
return {before, near, after: box(), sorted: shown.every((value, i) => i === 0 || value <= shown[i - 1]),
        boxes: document.querySelectorAll("#canvas .wide rect.box").length};
"""


@pytest.mark.slow
def test_the_network_zooms_and_tables_sort_with_hundreds_of_groups(tmp_path: Path) -> None:
    told = asked(page(240), ZOOM, tmp_path)
    assert told["near"][0] == pytest.approx(told["before"][0] / 1.25**2) and told["near"][1] > 0
    assert told["after"] == told["before"] and told["sorted"] and told["boxes"] == 240


def test_the_page_loads_nothing() -> None:
    text = page()
    for word in ("http:", "https:", "src=", "@import", "url(", "<link"):
        assert word not in text.replace("http://www.w3.org/2000/svg", ""), word
