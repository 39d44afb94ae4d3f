"""Tables as LaTeX with booktabs.

Labels, titles and questions are a user's: whatever they hold is shown as it is, so that no command
of theirs stands in a file. pdfLaTeX knows Latin letters only; Greek or Korean ones in a label need
XeLaTeX or LuaLaTeX.
"""

import re
from collections.abc import Sequence

from unalike.tables.model import Cell, Table
from unalike.tables.text import one_line

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # a command of its own under babel
    "`": r"\textasciigrave{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "—": "---",
    "−": "$-$",
}
STAR = {"*": r"$^*$"}  # raised where it is a mark; in a label it is an asterisk


def latex(tables: Sequence[Table]) -> str:
    """The tables as LaTeX; the preamble needs ``booktabs``."""
    out = ["% needs \\usepackage{booktabs}"]
    for table in tables:
        sides = "".join("r" if numeric else "l" for numeric in table.numeric)
        out += [
            r"\begin{table}",
            rf"  \caption{{{in_latex(table.title)}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{{sides}}}",
            r"    \toprule",
            rf"    {' & '.join(map(in_latex, table.columns))} \\",
            r"    \midrule",
        ]
        out += [rf"    {' & '.join(map(_cell, row))} \\" for row in table.rows]
        out += [r"    \bottomrule", r"  \end{tabular}"]
        if table.notes:
            notes = r"\\ ".join(map(in_latex, table.notes))
            out.append(rf"  \par\smallskip\footnotesize {notes}")
        out += [r"\end{table}", ""]
    return "\n".join(out)


def in_latex(text: str) -> str:
    r"""Text that LaTeX shows as it is; a bracket or star at its start is not the line break's.

    >>> print(in_latex("[a_b] 50 %"))
    {[}a\_b] 50 \%
    """
    parts = re.split(r"(?<=-)(?=-)", one_line(text))  # two hyphens would be one dash
    escaped = "{}".join("".join(SPECIAL.get(c, c) for c in part) for part in parts)
    return re.sub(r"^([\[*])", r"{\1}", escaped)


def _cell(cell: Cell) -> str:
    mark = "".join((SPECIAL | STAR).get(c, c) for c in cell.mark)
    text = f"{in_latex(cell.text)}{mark}"
    return rf"\textbf{{{text}}}" if cell.bold else text
