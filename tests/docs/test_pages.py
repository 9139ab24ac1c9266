"""The pages: links lead somewhere, the API page lists every public name, the site builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import autotune

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
    if not path.is_symlink()
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Names of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    for link in (a or b for a, b in LINK.findall(prose(page))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_the_modules_that_native_md_names_exist() -> None:
    modules = [path.as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    for name in re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "native.md").read_text("utf-8")):
        assert any(module.endswith(f"/{name}") for module in modules), name


def test_the_api_page_lists_every_public_name() -> None:
    listed = re.findall(r"^\.\. auto\w+:: autotune\.(\w+)$", API.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(set(autotune.__all__) - {"__version__"})


API = ROOT / "docs" / "api.md"


def test_no_paragraph_of_the_readme_has_more_than_six_lines() -> None:
    paragraphs = prose(ROOT / "README.md").split("\n\n")
    for paragraph in paragraphs:
        if not paragraph.lstrip().startswith(("|", "-")):
            assert paragraph.strip().count("\n") < 6, paragraph


def test_the_changelog_has_one_short_entry_per_version() -> None:
    entries = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    for entry in entries:
        assert entry.strip().count("\n") <= 25, entry.splitlines()[0]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "torch" in (tmp_path / "quickstart.html").read_text()
