"""The page as text: complete, self-contained, safe, small."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from command_line import mistake
from written_runs import COMPARISON, config, write_comparison, write_run

from unalike.compare.execution import folder as comparison
from unalike.errors import RunError, RunWarning
from unalike.report.html import page, write_report
from unalike.report.html.page import DETAILS, SECTIONS, content, render
from unalike.report.records import Reader


class Outline(HTMLParser):
    """Tags, ids and addresses of a page; fails on tags that are left open."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.addresses = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [found[k] for k in ("src", "href") if k in found]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def html(comparison_folder, tmp_path_factory):
    return write_report(comparison_folder, tmp_path_factory.mktemp("out") / "r.html").read_text()


@pytest.fixture(scope="module")
def outline(html):
    return Outline(html)


def charts(text):
    state = re.search(r'<script type="application/json" id="state">(.*?)</script>', text, re.S)
    return json.loads(state[1])["charts"]


def test_every_section_is_there_once_and_in_order(outline):
    found = [attrs["id"] for tag, attrs in outline.tags if tag == "section"]
    assert found == [s for s in SECTIONS if s not in ("clients", "sites")]
    assert len(outline.ids) == len(set(outline.ids))


def test_nothing_is_fetched(outline):
    assert all(a.startswith(("#", "data:")) for a in outline.addresses)
    assert "url(" not in page._asset("style.css")
    fetching = {"iframe", "object", "embed", "img", "audio", "video", "source"}
    assert not fetching & {tag for tag, _ in outline.tags}


def test_the_policy_allows_these_scripts_and_no_network(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1].replace("&#39;", "'")
    bodies = re.findall(r"<script>(.*?)</script>", html, re.S)
    assert len(bodies) == 2
    for body in bodies:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "unsafe-eval" not in policy


def test_it_is_small(html):
    assert len(html.encode()) < 1_500_000


def test_every_picture_has_a_place_and_words(outline, html):
    places = {a["id"]: a for _, a in outline.tags if "chart" in a.get("class", "").split()}
    assert set(places) == set(charts(html))
    kinds = ("partition", "curves", "cost", "clients", "frontier", "reliability", "weights")
    for kind in kinds:
        assert f"{kind}-0" in {re.sub(r"-\d+$", "", p) if kind == "weights" else p for p in places}
    assert "topology-0" in places
    assert all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in places.values())


def test_pictures_carry_their_data(html):
    for name, spec in charts(html).items():
        for columns in spec["datasets"].values():
            assert len({len(values) for values in columns.values()}) == 1, name
            assert all(columns.values()), name


def test_the_statistics_are_the_comparisons_own(html):
    text = re.sub(r"<[^>]+>", " ", html.split('<script type="application/json"')[0])
    assert "SCAFFOLD is best: ahead of every other method over 3 seeds" in text
    assert "Holm-corrected" in text
    assert re.search(r"<strong>8\d\.\d\d ± \d", html)  # the best, and proven so


def test_what_cannot_be_trusted_is_escaped(tmp_path):
    nasty = "</script><script>alert(1)</script><b>"
    text = COMPARISON.replace('"FedAvg"', f"'{nasty}'").replace("Two skews", nasty)
    folder = write_comparison(tmp_path / "c", text, finished=6)
    data = json.loads((folder / "cells").glob("*/skew.json").__next__().read_text())
    html = write_report(folder).read_text()
    assert "<script>alert" not in html
    assert "<b>" not in html
    assert Outline(html).tags.count(("script", {})) == 2
    assert data["classes"][0] == "class 0"


def test_runs_that_are_missing_are_named_and_their_reasons_escaped(tmp_path):
    folder = write_comparison(tmp_path / "c", finished=16)
    nasty = "it said <script>alert(1)</script> & stopped."
    failed = comparison.read(folder).cells[16].id
    (folder / "failed.json").write_text(json.dumps({failed: nasty}))
    html = write_report(folder).read_text()
    Outline(html)
    assert "16 of 18 runs finished, 1 failed." in html
    assert "Failed: it said &lt;script&gt;alert(1)&lt;/script&gt; &amp; stopped." in html
    assert "FedProx on dirichlet alpha=1, seed 2." in html
    assert "Not started." in html
    assert "<script>alert" not in html


def test_a_finished_run_without_the_compared_number_is_told_not_fatal(tmp_path):
    folder = write_comparison(tmp_path / "c")
    path = folder / comparison.read(folder).cells[0].folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "selected": None}))
    html = write_report(folder).read_text()
    assert "has no selected round: no client has validation data; " in html
    assert "FedAvg on dirichlet alpha=0.1, seed 0." in html


def picture_text(html, id):
    return re.search(rf'<figure id="{id}-figure".*?</figure>', html, re.S)[0]


def test_where_less_is_better_the_frontier_says_so(tmp_path):
    text = COMPARISON.replace("seeds = 3", 'seeds = 2\nmetric = "ece"')
    html = write_report(write_comparison(tmp_path / "c", text)).read_text()
    assert "down and to the left is better" in picture_text(html, "frontier-0")
    assert "up and to the right" not in html
    assert "ECE against bytes" in html


def test_one_global_number_has_no_pictures_of_clients(tmp_path):
    text = COMPARISON.replace("seeds = 3", 'seeds = 2\nsection = "global"')
    html = write_report(write_comparison(tmp_path / "c", text)).read_text()
    drawn = {re.sub(r"-\d+$", "", c) for c in charts(html)}
    assert not drawn & {"clients", "frontier"}
    assert {"curves", "cost", "reliability"} <= drawn
    assert "global test data of 2 seeds" in picture_text(html, "reliability-0")
    words = html.split('<script type="application/json"')[0]
    assert "Every client" not in words
    assert "worst tenth" not in words
    assert "Fairness" not in words


def test_partitions_and_shared_settings_are_in_sight(html):
    seen = re.sub(r"<details>.*?</details>", "", html, flags=re.S)
    assert "dirichlet, clients = 10, min_size = 1, alpha = 0.1" in seen
    assert "<dt>rounds</dt><dd>6</dd>" in seen


def test_a_run_shows_its_clients(run_folder, tmp_path):
    html = write_report(run_folder, tmp_path / "r.html").read_text()
    outline = Outline(html)
    assert "clients" in outline.ids
    assert "switches" not in outline.ids
    assert html.count("<tr") > 12
    assert "frontier-0" not in charts(html)


@pytest.mark.parametrize("rounds", [1, 3])
def test_an_unfinished_run_can_be_reported(tmp_path, rounds):
    folder = write_run(config(tmp_path / "a"), rounds=rounds)
    html = write_report(folder).read_text()
    assert f"0 of 1 run finished; started: a ({rounds} of 6 rounds)." in html


def test_a_run_that_has_only_begun_can_be_reported(tmp_path):
    folder = write_run(config(tmp_path / "a"))
    for path in folder.iterdir():
        if path.name != "config.json":
            path.unlink()
    html = write_report(folder).read_text()
    Outline(html)
    assert "Nothing has been evaluated yet." in html
    assert "The data have not been read yet." in html


def test_a_comparison_that_has_not_begun_can_be_reported(tmp_path):
    html = write_report(write_comparison(tmp_path / "c", finished=0)).read_text()
    Outline(html)
    assert "0 of 18 runs finished." in html


def in_short(folder):
    return content(Reader(folder).read()).sections["answer"]


def test_a_comparison_of_one_method_says_that_it_is_alone(tmp_path):
    text = re.sub(r"methods = .*?\n\]", 'methods = ["fedavg"]', COMPARISON, flags=re.S)
    said = in_short(write_comparison(tmp_path / "c", text, finished=2))
    assert "dirichlet alpha=0.1: only fedavg has results, so there is nothing to compare" in said
    assert "Nothing has been evaluated" not in said


def test_methods_without_a_common_seed_have_no_leader(tmp_path):
    folder = write_comparison(tmp_path / "c", finished=0)
    cells = {(c.label, c.condition, c.seed): c for c in comparison.read(folder).cells}
    for label, seed in (("FedAvg", 0), ("FedProx", 1)):
        write_run(cells[label, "dirichlet alpha=1", seed].config)
    said = in_short(folder)
    assert "dirichlet alpha=1: no seed has results for all these methods" in said
    assert "dirichlet alpha=0.1:" not in said


def test_a_comparison_whose_runs_have_only_begun_says_so(tmp_path):
    folder = write_comparison(tmp_path / "c", finished=0)
    assert "Nothing has been evaluated yet." in in_short(folder)
    write_run(comparison.read(folder).cells[0].config, rounds=2)
    made = content(Reader(folder).read())
    assert "No run has a result yet." in made.sections["answer"]
    assert not any("Nothing has been evaluated" in html for html in made.sections.values())


def test_metrics_without_classes(tmp_path):
    """An autoencoder has a loss and no accuracy, and nothing to calibrate."""
    folder = write_run(config(tmp_path / "a"))
    for name in ("rounds.jsonl", "clients.jsonl", "summary.json"):
        text = (folder / name).read_text()
        text = text.replace('"accuracy"', '"kl"').replace('"reliability"', '"unused"')
        (folder / name).write_text(text)
    html = write_report(folder).read_text()
    assert "loss 0." in html
    assert {"curves-0", "clients-0"} <= set(charts(html))
    assert "reliability-0" not in charts(html)


def test_a_large_comparison_keeps_to_the_limit_by_drawing_fewer_partitions(tmp_path, monkeypatch):
    text = COMPARISON.replace("seeds = 3", "seeds = 1")
    text = re.sub(r"methods = .*?\n\]", 'methods = ["fedavg"]', text, flags=re.S)
    folder = write_comparison(tmp_path / "c", text)
    study = Reader(folder).read()
    whole = render(study, content(study))
    monkeypatch.setattr(page, "LIMIT", len(whole) - 1000)
    html = write_report(folder).read_text()
    assert len(html) <= len(whole) - 1000
    assert "Charts show the first 1 of 2 partitions" in html
    assert {c.split("-")[1] for c in charts(html) if c.startswith("curves")} == {"0"}


def test_without_room_for_pictures_the_tables_stay(tmp_path, monkeypatch):
    folder = write_comparison(tmp_path / "c", finished=6)
    study = Reader(folder).read()
    least = content(study, DETAILS[-1])
    monkeypatch.setattr(page, "LIMIT", len(render(study, least).encode()))
    html = write_report(folder).read_text()
    Outline(html)
    assert len(html.encode()) <= page.LIMIT
    assert set(charts(html)) == {"topology-0"}
    assert "Charts of partitions and results would make this page too large" in html
    assert "Scores and costs on" in html


def test_a_page_that_stays_too_large_is_written_with_a_warning(tmp_path, monkeypatch):
    folder = write_comparison(tmp_path / "c", finished=6)
    monkeypatch.setattr(page, "LIMIT", 100_000)
    with pytest.warns(
        RunWarning, match=r"has \d+ kB, more than the 100 kB .* chart library \d+ kB"
    ):
        assert write_report(folder).exists()


def test_of_many_runs_settings_are_written_once_if_room_is_scarce(tmp_path):
    for name in ("a", "b", "c"):
        write_run(config(tmp_path / name))
    study = Reader(tmp_path).read()
    whole, least = (content(study, d).sections["commands"] for d in (DETAILS[0], DETAILS[-1]))
    assert (whole.count("<details>"), least.count("<details>")) == (3, 1)
    assert "The settings of 2 more runs are in the config.json" in least


def test_the_same_records_give_the_same_page(run_folder, tmp_path):
    pages = [write_report(run_folder, tmp_path / n).read_bytes() for n in ("a.html", "b.html")]
    assert pages[0] == pages[1]


def test_a_folder_as_output_is_refused(run_folder, tmp_path):
    with pytest.raises(RunError, match="is a folder; name the file to write"):
        write_report(run_folder, tmp_path)


def test_a_place_that_cannot_be_written_is_named(unalike, run_folder, tmp_path):
    (tmp_path / "file").write_text("")
    for place in ("/proc/x/r.html", str(tmp_path / "file" / "r.html")):
        said = mistake(unalike, "report", str(run_folder), "--output", place)
        assert f"'{place}' cannot be written: " in said
