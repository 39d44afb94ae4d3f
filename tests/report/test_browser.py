"""Reports in a real browser: drawn, quiet, usable by keyboard and by those who cannot see.

Needs Debian's chromium, and Playwright (pip install 'unalike[e2e]') to drive it. The check for
accessibility needs axe-core, which npm fetches once into a cache folder.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
from written_runs import append_round, config, write_run

from unalike.report.html import write_report
from unalike.report.live import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def axe():
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "unalike-tests"
    script = cache / "package" / "axe.min.js"
    if not script.exists():
        cache.mkdir(parents=True, exist_ok=True)
        try:
            made = subprocess.run(
                ["npm", "pack", "--silent", "axe-core@4"],
                cwd=cache,
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"axe-core cannot be had from npm: {error}")
        with tarfile.open(cache / made.stdout.strip()) as archive:
            archive.extract("package/axe.min.js", cache, filter="data")
    return script.read_text()


class Visit:
    """A page, and everything it said or asked for."""

    def __init__(self, browser, url, width=1280):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.url, self.said, self.asked = url, [], []
        self.page.on("console", lambda m: self.said.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.said.append(f"error: {e}"))
        self.page.on("request", lambda r: self.asked.append(r.url))

    def __enter__(self):
        self.page.goto(self.url)
        self.page.wait_for_selector("html[data-drawn=yes]", timeout=30_000)
        return self

    def __exit__(self, *_):
        self.context.close()

    @property
    def elsewhere(self):
        """What was asked of anybody but the page's own place."""
        own = self.url.rpartition("/")[0]
        return [u for u in self.asked if not u.startswith((own, "data:", "blob:"))]


@pytest.fixture(scope="module")
def reports(comparison_folder, run_folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("reports")
    folders = {"comparison": comparison_folder, "run": run_folder}
    return {
        name: write_report(folder, place / f"{name}.html").as_uri()
        for name, folder in folders.items()
    }


@pytest.fixture(scope="module")
def visit(browser, reports):
    with Visit(browser, reports["comparison"]) as found:
        yield found


def empty_charts(page):
    """Pictures without marks or without room."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.chart')].filter(place => {
          const marks = place.querySelectorAll('svg .role-mark path, svg .role-mark line');
          const box = place.querySelector('svg')?.getBoundingClientRect();
          return !(marks.length > 3 && box.width > 200 && box.height > 60);
        }).map(place => place.id)"""
    )


def worst_findings(visit, axe):
    """Serious and critical findings of axe, which the page's policy would not let in."""
    session = visit.context.new_cdp_session(visit.page)
    session.send("Page.setBypassCSP", {"enabled": True})
    visit.page.reload()
    visit.page.wait_for_selector("html[data-drawn=yes]")
    visit.page.evaluate(axe)
    found = visit.page.evaluate("axe.run({resultTypes: ['violations']})")
    assert len(found["passes"]) > 20
    return [
        (v["id"], v["nodes"][0]["html"][:200])
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["comparison", "run"])
def test_everything_is_drawn_and_nothing_fetched(browser, reports, name, width):
    with Visit(browser, reports[name], width) as visit:
        assert visit.said == []
        assert visit.elsewhere == []
        assert empty_charts(visit.page) == []
        assert visit.page.evaluate("document.querySelectorAll('.chart').length") >= 6
        too_wide = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert too_wide <= 0


@pytest.mark.parametrize("name", ["comparison", "run"])
def test_accessibility(browser, reports, axe, name):
    with Visit(browser, reports[name], 390) as visit:
        assert worst_findings(visit, axe) == []


def until(check, seconds=20):
    """Wait without the browser's eval, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def cells(page, table, column):
    return page.locator(f"#{table} tbody tr td:nth-child({column + 1})").all_inner_texts()


def test_a_table_sorts_by_click_and_by_key(visit):
    head = visit.page.locator("#results-0-0 thead th").nth(2)
    before = cells(visit.page, "results-0-0", 2)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    down = cells(visit.page, "results-0-0", 2)
    assert down == sorted(before, key=float, reverse=True)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert cells(visit.page, "results-0-0", 2) == down[::-1]


def test_sizes_sort_by_their_unit(visit):
    visit.page.evaluate(
        """() => { const rows = document.querySelectorAll('#ledger tbody tr');
        rows[0].cells[4].dataset.key = 9e9; rows[0].cells[4].textContent = '9 GB'; }"""
    )
    visit.page.locator("#ledger thead button", has_text="sent").click()
    assert cells(visit.page, "ledger", 4)[0] == "9 GB"


def lines(page):
    """The colours of the curves that are drawn."""
    return page.evaluate(
        """() => [...document.querySelectorAll('#curves-0 svg .mark-line path')]
        .filter(p => p.getAttribute('d')).map(p => p.getAttribute('stroke'))"""
    )


def test_methods_are_switched_off_everywhere(visit):
    page = visit.page
    assert len(lines(page)) == 3
    box = page.get_by_role("checkbox", name="FedProx")
    box.focus()
    box.press("Space")
    until(lambda: len(lines(page)) == 2)
    assert lines(page) == ["#0072B2", "#009E73"]  # the others keep their colours
    assert page.locator("#overview tbody tr:visible").count() == 2
    box.press("Space")
    until(lambda: len(lines(page)) == 3)
    assert page.locator("#overview tbody tr:visible").count() == 3


def test_the_pointer_finds_numbers(visit):
    points = "#curves-0 svg .mark-symbol.role-mark path[fill='#009E73']"
    point = visit.page.locator(points).last
    point.evaluate("p => p.scrollIntoView({block: 'center'})")
    x, y = point.evaluate("p => { const at = p.getScreenCTM(); return [at.e, at.f]; }")
    visit.page.mouse.move(x + 5, y + 2)
    tooltip = visit.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    rows = (row.locator("td").all_inner_texts() for row in tooltip.locator("tr").all())
    found = dict(rows)
    assert list(found) == ["method", "round", "accuracy", "lowest", "highest"]
    assert (found["method"], found["round"]) == ("SCAFFOLD", "6")
    assert re.fullmatch(r"8\d\.\d\d%", found["accuracy"])


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture_can_be_saved(visit, kind):
    with visit.page.expect_download() as download:
        visit.page.locator(f"[data-chart='frontier-0'] [data-format={kind}]").click()
    start = Path(download.value.path()).read_bytes()[:5]
    assert download.value.suggested_filename == f"frontier-0.{kind}"
    assert start == {"svg": b"<svg ", "png": b"\x89PNG\r"}[kind]


def test_the_live_view_grows(browser, tmp_path):
    made = config(tmp_path / "run")
    write_run(made, rounds=2)
    with Server(made.run.folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            with Visit(browser, server.url) as visit:
                page = visit.page
                page.locator("#clients-table thead button", has_text="accuracy").click()
                page.locator("#methods summary").click()
                points = "document.querySelectorAll('#curves-0 svg .mark-symbol path').length"
                before = page.evaluate(points)
                page.evaluate("document.body.dataset.kept = 'yes'")
                append_round(made, 3)
                until(lambda: "(3 of 6 rounds)" in page.inner_text("#status"))
                page.wait_for_selector("html[data-version]")
                assert page.evaluate(points) > before
                head = page.locator("#clients-table thead th", has_text="accuracy")
                assert head.get_attribute("aria-sort") == "descending"
                assert page.locator("#methods details").evaluate("d => d.open")
                assert page.evaluate("document.body.dataset.kept") == "yes"  # it was not reloaded
                assert visit.said == []
                assert visit.elsewhere == []
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_the_report_of_the_quickstart(browser, axe, tmp_path):
    command = [sys.executable, "-m", "unalike.cli.main"]
    for words in (["compare", "quickstart", "--folder", "qs"], ["report", "qs"]):
        subprocess.run([*command, *words], cwd=tmp_path, check=True, capture_output=True)
    for width in WIDTHS:
        with Visit(browser, (tmp_path / "qs" / "report.html").as_uri(), width) as visit:
            assert visit.said == []
            assert visit.elsewhere == []
            assert empty_charts(visit.page) == []
            assert worst_findings(visit, axe) == []
