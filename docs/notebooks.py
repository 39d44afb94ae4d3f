"""Runs the notebooks in docs/notebooks, rewrites them with their outputs, and writes their pages.

python docs/notebooks.py          needs nbclient and ipykernel, which the extra dev brings

A notebook contains the outputs of its last run; its page is made from the notebook alone.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "notebooks"
NOTICE = "<!-- Written by docs/notebooks.py from {}; edit the notebook instead. -->\n"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of a kernel that begins afresh, in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    raw = json.loads(nbformat.writes(notebook))
    raw["metadata"] = {"language_info": {"name": "python"}}
    for cell in raw["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = _joined(cell["outputs"])
    return raw


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs, with pieces of one stream put together: where it was cut is chance."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        if "text" in output:  # a command's lines end as a terminal's do
            output["text"] = [line.replace("\r\n", "\n") for line in output["text"]]
        if joined and "name" in output and joined[-1].get("name") == output["name"]:
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def page(raw: dict[str, Any], name: str) -> str:
    """A notebook as a page: text, code, and what it showed."""
    parts = [NOTICE.format(f"{name}.ipynb")]
    for cell in raw["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```py\n{source}\n```")
            parts += filter(None, map(_shown, cell["outputs"]))
    parts.append(f"[The notebook]({name}.ipynb), to run it and change it.")
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        text = "".join(data["text/html"])
        if "<progress" in text:  # a page has nothing to wait for
            return ""
        lines = "\n".join(line for line in text.splitlines() if line.strip())
        return f'<div class="output">\n{lines}\n</div>'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{COLOURS.sub('', text).rstrip()}\n```"


def main() -> None:
    """Every notebook, or those named."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for path in sorted(FOLDER.glob("*.ipynb")):
        if len(sys.argv) > 1 and path.stem not in sys.argv[1:]:
            continue
        raw = run(path)
        path.write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(page(raw, path.stem), encoding="utf-8")
        print(f"ran {path.name}")


if __name__ == "__main__":
    main()
