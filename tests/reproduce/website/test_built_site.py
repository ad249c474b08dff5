"""The site as built: whole, light, closed to the network, with every link landing on its heading."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

import pytest

import browsing
import built_site
from reproduce import catalogue, paths
from reproduce.teaching import editions
from reproduce.website import books, building

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

HEAVIEST = 3_000_000
"""The most bytes that a page may make a browser load."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A build from nothing in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SITE", "PAGES", "DOCTREES", "EXTRA"):
            patch.setattr(building, name, folder / name.lower())
        index = building.build(jobs=1)
    return index.parent


@pytest.fixture(scope="module")
def pages(site):
    return built_site.pages(site)


def rows():
    return json.loads((paths.FIGURES / "claims.json").read_text(encoding="utf-8"))["claims"]


def test_every_notebook_report_and_the_rest_have_a_page(site):
    names = [path.relative_to(paths.ROOT) for path in books.notebooks()]
    names += [(paths.FIGURES / p / "REPORT.md").relative_to(paths.ROOT) for p in catalogue.papers()]
    names = [name.with_suffix(".html").as_posix() for name in names]
    names += ["index.html", "lessons.html", "reading.html", "citing.html", "figures/CLAIMS.html"]
    names += ["README.html", "search.html", "api/index.html", "api/accounting.html"]
    assert [name for name in names if not (site / name).is_file()] == []


def test_no_page_asks_the_network_for_anything(pages):
    assert [
        f"{page.path}: {address}"
        for page in pages.values()
        for address in page.loaded
        if built_site.leaves(address)
    ] == []


def test_no_style_sheet_and_no_script_asks_the_network_for_anything(site):
    for path in site.rglob("*.css"):
        found = built_site.in_styles(path.read_text(encoding="utf-8"))
        assert [one for one in found if built_site.leaves(one)] == [], path
    calls = re.compile(r"(?:fetch|importScripts|import|open)\(\s*[\"'`](?:https?:)?//")
    for path in (site / "_static").rglob("*.js"):
        assert not calls.search(path.read_text(encoding="utf-8")), path


def test_what_a_page_loads_is_there(pages):
    for path, page in pages.items():
        for address in page.loaded:
            if address and not address.startswith("data:"):
                assert built_site.target(path, address)[0].is_file(), f"{page.path}: {address}"


def test_links_within_the_site_land_on_a_page_and_an_anchor(pages):
    assert sum(len(page.links) for page in pages.values()) > 5000
    assert list(built_site.broken(pages)) == []


def test_every_row_of_the_ledger_lands_on_its_heading(site, pages):
    assert len(rows()) > 500
    for row in rows():
        notebook, _, fragment = row["link"].partition("#")
        page = pages[(site / notebook).with_suffix(".html").resolve()]
        assert fragment and unquote(fragment) in page.ids, row["link"]


def test_no_page_is_too_heavy(pages):
    heavy = {str(page.path): built_site.weight(page) for page in pages.values()}
    assert {name: size for name, size in heavy.items() if size > HEAVIEST} == {}


def test_formulas_are_mathml_and_none_is_left_as_written(pages):
    formulas = 0
    for page in pages.values():
        text = page.path.read_text(encoding="utf-8")
        formulas += text.count("<math")
        assert "<merror" not in text, page.path
    assert formulas > 2000


def test_the_ledger_has_its_filter_and_all_of_its_rows(site):
    text = (site / "figures/CLAIMS.html").read_text(encoding="utf-8")
    form = text.partition('id="ledger-filter"')[2].partition("</form>")[0]
    for name in ("text", "paper", "verdict", "whose"):
        assert f'name="{name}"' in form
    assert "ledger.js" in text and (site / "_static/ledger.js").is_file()
    shown = re.findall(r"<thead>.*?</thead>\s*<tbody>(.*?)</tbody>", text, re.DOTALL)
    heads = re.findall(r"<thead>(.*?)</thead>", text, re.DOTALL)
    claims = [
        body for head, body in zip(heads, shown, strict=True) if re.search(r"<p>claim</p>", head)
    ]
    assert sum(body.count("<tr") for body in claims) == len(rows())


def test_answers_of_lessons_are_folded_and_a_blank_stands_before_each(site):
    for path in editions.lessons():
        text = (
            (site / path.relative_to(paths.ROOT)).with_suffix(".html").read_text(encoding="utf-8")
        )
        book = editions.nbformat.read(path, as_version=4)
        answers = sum("answer" in editions.tags(cell) for cell in book.cells)
        assert text.count('<p class="collapsed admonition-title">An answer</p>') == answers > 0
        assert text.count("your answer") + text.count("your guess") >= answers


def test_a_second_build_reads_nothing_again(tmp_path, monkeypatch):
    """Gathering the pages twice leaves the times of all files as they are."""
    from reproduce.website import gathering

    gathering.gather(tmp_path, {})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert gathering.gather(tmp_path, {}) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# In a browser --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with browsing.chromium() as opened:
        yield opened


VISITED = (
    "index.html",
    "lessons.html",
    "reading.html",
    "citing.html",
    "figures/CLAIMS.html",
    "figures/ddpsa/REPORT.html",
    "notebooks/walkthroughs/lesson0.html",
    "notebooks/partitioning/fig1.html",
    "api/accounting.html",
    "sliders/lesson1.html",
    "search.html",
)


@pytest.mark.parametrize("name", VISITED)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_loads_without_an_error_and_without_the_network(site, browser, name, width):
    opened = browsing.Watched(browser, width=width)
    opened.tab.goto((site / name).as_uri())
    opened.tab.wait_for_load_state("networkidle")
    assert opened.faults == []
    outside = [url for url in opened.requests if not url.startswith((site.as_uri(), "data:"))]
    assert outside == []
    assert opened.tab.evaluate("document.documentElement.scrollWidth") <= width
    target = paths.BUILD / "screenshots" / f"site-{name.replace('/', '-')}-{width}.png"
    opened.tab.screenshot(path=target)
    opened.tab.close()


def test_the_ledger_is_filtered(site, browser):
    claims = rows()
    opened = browsing.Watched(browser)
    tab = opened.tab
    tab.goto((site / "figures/CLAIMS.html").as_uri())
    seen = tab.locator("table.ledger tbody tr:visible")
    assert seen.count() == len(claims)
    tab.locator("#ledger-filter [name=verdict]").select_option("false")
    wrong = [row for row in claims if row["verdict"] == "false"]
    assert 0 < len(wrong) < len(claims)
    assert seen.count() == len(wrong)
    tab.locator("#ledger-filter [name=paper]").select_option("ddpsa")
    own = [row for row in wrong if row["figure"].startswith("ddpsa/")]
    assert seen.count() == len(own) > 0
    assert (
        f"{len(own)} of {len(claims)} claims" in tab.locator("#ledger-filter output").inner_text()
    )
    address = tab.url
    assert "verdict=false" in address and "paper=ddpsa" in address
    tab.locator("#ledger-filter [name=text]").fill("no claim says this")
    assert seen.count() == 0
    other = browsing.Watched(browser)
    other.tab.goto(address)
    assert other.tab.locator("table.ledger tbody tr:visible").count() == len(own)
    assert opened.faults == [] and other.faults == []
    tab.close()
    other.tab.close()
