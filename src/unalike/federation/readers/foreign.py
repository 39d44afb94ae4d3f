"""Files that are named like tables but are something else, recognised by how they begin."""

from pathlib import Path

LOOK = 4096  # bytes that are enough to know
_BEGINNINGS = {
    b"PK\x03\x04": "it is an Excel file or a ZIP archive; save its sheet as CSV",
    b"\xd0\xcf\x11\xe0": "it is an old Excel file; save its sheet as CSV",
    b"%PDF": "it is a PDF; save the table as CSV",
    b"PAR1": "it is a Parquet file; rename it to end in .parquet",
    b"SQLite format": "it is a database; write its table as CSV",
}
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<table")


def foreign(path: Path, encoding: str) -> str:
    """What a file is instead of lines of text, in words that fit after a colon; empty if not."""
    with open(path, "rb") as file:
        head = file.read(LOOK)
    for beginning, said in _BEGINNINGS.items():
        if head.startswith(beginning):
            return said
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        wide = "16" in encoding or "32" in encoding
        return "" if wide else "it is written in UTF-16; set data.encoding = 'utf-16'"
    if head.lstrip().lower().startswith(_MARKUP):
        return "it is a page of HTML or XML; save the table as CSV"
    if head.lstrip().startswith((b"[{", b'{"', b"{\n")):
        return "it is JSON; save it as CSV"
    first, ended, _ = head.partition(b"\n")
    if b"\r" in head and not ended:
        return "its lines end only in carriage returns; save it with line feeds"
    if not head.startswith(b"\x1f\x8b") and b"\x00" in first and encoding[:5] != "utf-1":
        return "it is not text: there are zero bytes in its first line"
    return ""
