"""The same table in every medium: no text is cut, and none is taken for a command."""

import csv as reader
import re
import shutil
import subprocess
from html.parser import HTMLParser
from io import StringIO

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from unalike.tables.cells import count, decimal, score, size, whole, words
from unalike.tables.csv import csv
from unalike.tables.html import html
from unalike.tables.latex import latex
from unalike.tables.markdown import markdown
from unalike.tables.model import Cell, Table
from unalike.tables.terminal import terminal

HOSTILE = [
    "[k=2]",
    "a|b_c % d & e $f$ <g> h>i",
    "[/data/x.csv] \\ & % $ # _ { } ~ ^ \" ' ` ``x'' -- --- <a|b>",
    "<script>alert(1)</script>",
    "&lt;b&gt; **bold** _it_ `code` ~~no~~ $x^2$",
    "![x](http://a.b) [y](javascript:z)",
    "# head",
    "- item",
    "1. first",
    "= 1 + 1",
    "*",
    "two\n\nlines | \x1b[31m",
    "\\\\[2cm]",
]
SMALL = Table(
    "T",
    ["method", "accuracy %", "sent", "result"],
    [
        [words("FedAvg", " †"), score(0.8123, "accuracy"), size(3_855_000), words("tie")],
        [words("own"), Cell(0.91, "91.00 ± 1.00", bold=True, mark="*"), size(None), words("win")],
    ],
    ["A note.", "Another."],
)


def hostile() -> Table:
    rows = [[words(text), Cell(text, text, bold=True)] for text in HOSTILE]
    return Table(HOSTILE[2], ["method", HOSTILE[0]], rows, HOSTILE)


def drawn(tables: list[Table], width: int) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(terminal(tables, width))
    return [line.rstrip() for line in console.export_text().splitlines()]


class Shown(HTMLParser):
    """The cells of an HTML table: tag, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[tuple[str, dict[str, str | None], str]] = []
        self.rows: list[dict[str, str | None]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append(dict(attrs))
        if tag in ("td", "th"):
            self.cells.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            tag, attrs, text = self.cells[-1]
            self.cells[-1] = tag, attrs, text + data


def in_markdown_cells(text: str) -> list[list[str]]:
    """The texts of a Markdown table as a reader sees them."""
    parser = MarkdownIt("commonmark").enable(["table"])
    rows: list[list[str]] = []
    for token in parser.parse(text):
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline" and rows and token.level >= 3:
            rows[-1].append("".join(c.content for c in token.children or []))
    return [row for row in rows if row]


def test_every_medium_shows_the_same_texts():
    texts = [SMALL.columns, *([cell.shown for cell in row] for row in SMALL.rows)]
    assert in_markdown_cells(markdown([SMALL._replace(notes=())])) == texts
    page = Shown(html(SMALL, "t")).cells
    assert [text for _, _, text in page] == [text for row in texts for text in row]
    lines = "\n".join(drawn([SMALL], 80))
    for row in texts:
        assert re.search(r"^" + r" +".join(map(re.escape, row)) + r"$", lines, re.M), row


def test_numbers_are_right_and_words_left():
    assert SMALL.numeric == [False, True, True, False]
    assert "| --- | ---: | ---: | --- |" in markdown([SMALL])
    assert r"\begin{tabular}{lrrl}" in latex([SMALL])
    kinds = [attrs.get("class") for _, attrs, _ in Shown(html(SMALL, "t")).cells[:4]]
    assert kinds == [None, "number", "number", None]


def test_html_is_sorted_by_values_not_by_texts():
    keys = [attrs.get("data-key") for _, attrs, _ in Shown(html(SMALL, "t")).cells[4:]]
    assert keys == [None, "0.8123", "3855000", None, None, "0.91", "", None]


def test_rows_of_html_belong_to_the_method_they_begin_with():
    """A mark behind the label does not hide whose row it is."""
    made = Shown(html(SMALL, "t", ["FedAvg"]))
    assert [row.get("data-method") for row in made.rows] == [None, "FedAvg", None]
    assert "button" in made.tags
    assert "button" not in Shown(html(SMALL, "t", sortable=False)).tags


def test_html_lets_sentences_wrap():
    told = SMALL._replace(
        rows=[[*SMALL.rows[0][:3], words("a sentence of more than thirty letters")]]
    )
    assert Shown(html(told, "t")).cells[-1][1]["class"] == "words"


def test_csv_has_the_values_with_all_their_digits():
    rows = [[words('a "b", c'), Cell(1 / 3, "33.33"), Cell(True, "yes"), Cell(None, "—")]]
    text = csv(Table("T", ["label", "x", "best", "p"], rows, ["not in it"]))
    assert text == 'label,x,best,p\n"a ""b"", c",0.3333333333333333,true,\n'
    ((head), *found) = reader.reader(StringIO(text))
    assert head == ["label", "x", "best", "p"]
    assert float(found[0][1]) == 1 / 3


def test_cells_keep_the_value_beside_its_text():
    made = [score(0.5, "accuracy"), decimal(2.0, 1), size(2000), count(1500), whole(1500)]
    assert [cell.value for cell in made] == [0.5, 2.0, 2000, 1500, 1500]
    assert [cell.text for cell in made] == ["50.00", "2.0", "2 kB", "1.5k", "1,500"]
    assert score(float("nan"), "loss") == Cell(None, "—")


def test_columns_that_hold_nothing_can_be_left_out():
    empty = SMALL._replace(rows=[[words(""), Cell(None, "—"), size(1), Cell(None, "—")]])
    assert empty.filled().columns == ["method", "sent"]
    assert SMALL.filled() == SMALL


def test_a_note_is_given_once():
    other = SMALL._replace(title="U", notes=["A note.", "New."])
    for text in (markdown([SMALL, other]), "\n".join(drawn([SMALL, other], 80))):
        assert [text.count(note) for note in ("A note.", "Another.", "New.")] == [1, 1, 1]


def test_a_table_without_rows_or_title_is_drawn():
    bare = Table("", ["method", "n"], [])
    assert drawn([bare], 80)[0].split() == ["method", "n"]
    assert markdown([bare]) == "| method | n |\n| ---: | ---: |\n"


def test_long_words_are_wrapped_and_wide_letters_counted():
    table = Table(
        "T",
        ["measure", "value", "meaning"],
        [[words("연합학습 " * 3), whole(3), words("so " * 40)]],
    )
    lines = drawn([table], 60)
    assert "…" not in "\n".join(lines)
    assert "\n".join(lines).count("so") == 40
    assert sum(line.startswith("measure") for line in lines) == 1


def seen(text: str) -> str:
    return " ".join(text.replace("\x1b", " ").split())


def test_markdown_shows_any_label_as_it_is():
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for heading in HOSTILE:
        tokens = parser.parse(markdown([hostile()], heading))
        assert not [
            t.type for t in tokens if t.type.startswith(("html", "heading", "hr", "ordered"))
        ]
        inline = [t for t in tokens if t.type == "inline"]
        kinds = {c.type for t in inline for c in t.children or []}
        assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
        shown = ["".join(c.content for c in t.children or []) for t in inline]
        rows = [text for text in map(seen, HOSTILE) for _ in range(2)]
        expected = [heading, HOSTILE[2], "method", HOSTILE[0], *rows, *HOSTILE]
        assert shown == list(map(seen, expected))


def test_html_shows_any_label_as_it_is():
    made = Shown(html(hostile(), 'x" onclick="y', HOSTILE))
    expected = ["method", HOSTILE[0], *(text for text in HOSTILE for _ in range(2))]
    assert [text for _, _, text in made.cells] == expected
    assert [row["data-method"] for row in made.rows[1:]] == HOSTILE
    assert made.tags == {
        "p",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "td",
        "th",
        "button",
        "strong",
    }


def test_latex_escapes_what_has_a_meaning():
    label = words("a|b_c%d&e$f<g>h*")
    text = latex([Table("T", ["method"], [[label]])])
    assert r"    a\textbar{}b\_c\%d\&e\$f$<$g$>$h* \\" in text


def test_a_star_is_raised_where_it_is_a_mark():
    text = latex([SMALL])
    assert r"FedAvg $^\dagger$ & 81.23 & 3.85 MB & tie \\" in text
    assert r"own & \textbf{91.00 $\pm$ 1.00$^*$} & --- & win \\" in text


def test_latex_rows_do_not_begin_with_a_bracket_or_a_star():
    """Both would belong to the line break before them."""
    text = latex([hostile()])
    assert not re.search(r"(\\\\|\\midrule)\s*[\[*]", text)
    assert "\n\n" not in text.strip()
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX")
def test_latex_compiles_whatever_the_labels_are(tmp_path):
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "t.tex").write_text(f"{head}{latex([hostile(), SMALL])}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "t.log").read_text(errors="replace")
