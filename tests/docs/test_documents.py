"""The documents say what is true: links lead somewhere, commands and snippets are accepted."""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from unalike.algorithms.table import METHODS
from unalike.compare.specification.spec import loads
from unalike.errors import ConfigError
from unalike.run.configuration.config import Config, override, parse
from unalike.tune.space import tuning

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
PAGES += sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[;&|]|\bdo)\s*(?:\S+/)?unalike\s+([^;&|>\n]*)", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Snippet(NamedTuple):
    """A fenced block: its page, the file it is shown as, its text, the TOML that came before it."""

    page: Path
    number: int
    file: str
    text: str
    before: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}"


def snippets(wanted: str) -> list[Snippet]:
    """Every fenced block in a language."""
    found = []
    for page in PAGES:
        before = ""
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8"))):
            language, text = match[2], match[4]
            if language == wanted:
                file = match[3].partition('title="')[2].rstrip('" ')
                found.append(Snippet(page, number, file, text, before))
            if language == "toml":
                before = text
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks and its comments."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can name."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE):
        named = re.search(r"\{#([\w-]+)\}", heading)
        plain = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        found.add(named[1] if named else re.sub(r"[-\s]+", "-", plain))
    return found


def ids(page: Path) -> str:
    """How a page is called in a test's name."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_internal_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{ids(page)} links to '{target}', which does not exist"
        if anchor:
            assert anchor in anchors(there), f"{ids(page)} links to '{target}': no such heading"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_source_files_that_are_named_exist(page: Path) -> None:
    for path in re.findall(r"`((?:src|tests|docs)/[\w/.-]+\.\w+)`", page.read_text("utf-8")):
        assert (ROOT / path).is_file(), f"{ids(page)} names '{path}', which does not exist"


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")), ids=ids)
def test_quoted_code_is_in_the_source(page: Path) -> None:
    """The right column of "Equations and code" quotes lines of the files named above it."""
    _, _, rest = page.read_text(encoding="utf-8").partition("## Equations and code\n")
    section = rest.partition("\n## ")[0]
    sources = re.findall(r"`(src/[\w/]+\.py)`", section)
    code = "".join("".join((ROOT / path).read_text(encoding="utf-8").split()) for path in sources)
    rows = re.findall(r"^\|.*\| (`.*`) \|$", section, re.MULTILINE)
    assert rows or page.stem == "index", f"{ids(page)} sets no equation beside code"
    for quote in (quote for row in rows for quote in re.findall(r"`([^`]+)`", row)):
        found = "".join(quote.split()) in code
        assert found, f"{ids(page)} quotes `{quote}`, which is in none of {', '.join(sources)}"


@pytest.mark.parametrize("snippet", snippets("toml"), ids=str)
def test_toml_snippets_are_valid_configurations(snippet: Snippet) -> None:
    if "compare" in tomllib.loads(snippet.text):
        assert loads(snippet.text, str(snippet)).cells
    elif "tune" in tomllib.loads(snippet.text):
        assert tuning(tomllib.loads(snippet.text)).space
    else:
        parse(tomllib.loads(snippet.text))


@pytest.mark.parametrize("snippet", snippets("toml"), ids=str)
def test_toml_snippets_make_a_recipe(snippet: Snippet) -> None:
    """On digits and a perceptron: method, combination, partition and topology go together."""
    from unalike.run.experiment.build import federation
    from unalike.run.experiment.program import program
    from unalike.run.experiment.shape import Shape
    from unalike.run.experiment.task import task

    raw = {k: v for k, v in tomllib.loads(snippet.text).items() if k != "tune"}
    own = dict(raw.get("topology", {})).get("name") == "graph"
    if own or "compare" in raw or dict(raw.get("data", {})).get("name") in ("files", "hub"):
        pytest.skip("a comparison, or the reader's own files")
    model = dict(raw.get("model", {}))
    plain = model if model.get("name") in ("vae", "mlp") else {"name": "mlp"}
    raw |= {"data": {"name": "digits"}, "model": plain}
    raw.pop("engine", None)  # which is about the reader's machine
    config = parse(raw)
    data = federation(config)
    program(config, task(config, data.examples), Shape.of(data))


@pytest.mark.parametrize("snippet", snippets("sh"), ids=str)
def test_commands_are_accepted(snippet: Snippet) -> None:
    from unalike.cli.main import app

    text = re.sub(r"\\\n", " ", snippet.text).replace("$seed", "1")
    for command in COMMAND.findall(text):
        words = shlex.split(command, comments=True)
        app.parse_args(words, exit_on_error=False, print_error=False)
        before = tomllib.loads(snippet.before)
        plain = not before.keys() & {"compare", "tune"}
        if words[0] in ("run", "skew") and "--target" not in words and plain:
            _accepted(before, words)
    for target in re.findall(r"^make (\w[\w-]*)", text, re.MULTILINE):
        assert target in _targets(), f"{ids(snippet.page)} names 'make {target}'"


def _accepted(raw: dict[str, Any], words: list[str]) -> Config:
    if "--set" in words:
        for item in words[words.index("--set") + 1 :]:
            if item.startswith("--"):
                break
            override(raw, item)
    return parse(raw)


def _targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_commands_in_running_text_exist(page: Path) -> None:
    from unalike.cli.main import app

    known = {*app, "COMMAND"}
    for name in re.findall(r"`unalike ([\w-]+)[^`]*`", prose(page)):
        assert name in known, f"{ids(page)} speaks of 'unalike {name}'"
    for name in re.findall(r"`make ([\w-]+)[^`]*`", prose(page)):
        assert name in _targets(), f"{ids(page)} speaks of 'make {name}'"


@pytest.mark.parametrize("snippet", snippets("python"), ids=str)
def test_python_snippets_run(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, but for earlier ones of its page that are shown as files: it may import them."""
    monkeypatch.chdir(tmp_path)
    for other in snippets("python"):
        earlier = other.page == snippet.page and other.number < snippet.number
        if earlier and other.file.startswith("src/"):
            name = other.file.removeprefix("src/").removesuffix(".py").replace("/", ".")
            module = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(other.text, other.file, "exec"), module.__dict__)
    before = dict(METHODS)
    try:
        exec(compile(snippet.text, str(snippet), "exec"), {"__name__": "snippet"})
    finally:  # a snippet may add a method of its own: it must not stay
        METHODS.clear()
        METHODS.update(before)


def test_own_data_example_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TOML with a file, on a table that begins like the one it is shown with."""
    from unalike.run.execute import start

    snippet = next(s for s in snippets("toml") if s.page.name == "README.md" and "path" in s.text)
    raw = tomllib.loads(snippet.text)
    blocks = [text for *_, text in FENCE.findall(snippet.page.read_text(encoding="utf-8"))]
    head, *rows = next(text for text in blocks if text.startswith("hospital,")).split()
    monkeypatch.chdir(tmp_path)
    (tmp_path / raw["data"]["path"]).write_text("\n".join([head, *rows * 20]) + "\n")
    folder = start(parse({**raw, "rounds": 2}))
    assert (folder / "summary.json").exists()


def test_every_page_is_in_the_navigation() -> None:
    def leaves(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values() if isinstance(entry, dict) else entry:
                yield from leaves(inner)

    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = sorted(leaves(site["project"]["nav"]))
    assert listed == sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))


def test_the_checks_can_fail() -> None:
    with pytest.raises(ConfigError):
        parse(tomllib.loads('[method]\nname = "fedprx"'))
    with pytest.raises(ConfigError):
        _accepted({}, ["run", "a.toml", "--set", "method.mu=1"])
    assert COMMAND.findall("for s in 1; do\n  unalike run a.toml\ndone & unalike resume b") == [
        "run a.toml",
        "resume b",
    ]
