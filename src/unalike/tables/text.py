"""A user's text on its way into a file."""

import re


def one_line(text: str) -> str:
    """Without control characters, and with single spaces for all white space."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())
