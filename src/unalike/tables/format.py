"""How a number is written, wherever it is shown.

Rounded for people; files for programs (CSV, Parquet, JSON) hold all digits.
"""

import math

from unalike.metrics.catalogue import metric as looked_up

NOTHING = "—"  # for what is missing or undefined
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
PREFIXES = ("", "k", "M", "G", "T", "P")


def decimal(value: float | None, places: int) -> str:
    """A number without a unit, with so many decimals.

    >>> decimal(0.12345, 3), decimal(-0.0001, 3), decimal(None, 3)
    ('0.123', '0.000', '—')
    """
    return NOTHING if undefined(value) else f"{value:z.{places}f}"


def number(value: float | None, metric: str, statistic: str = "mean") -> str:
    """A value of a metric, or of a statistic of it over clients; shares are in per cent.

    >>> number(0.98765, "accuracy"), number(0.98765, "loss"), number(0.98765, "accuracy", "gini")
    ('98.77', '0.9877', '0.988')
    >>> number(53.98765, "rmse"), number(251234.6, "rmse"), number(0.0012345, "rmse")
    ('53.99', '251235', '0.001234')
    """
    if statistic == "gini":  # it has no unit, whatever the metric has
        return decimal(value, 3)
    return decimal(_in_unit(value, metric), _places(value, metric))


def with_unit(value: float | None, metric: str) -> str:
    """A value of a metric in a sentence.

    >>> with_unit(0.98765, "accuracy"), with_unit(0.98765, "loss")
    ('98.77 %', '0.9877')
    """
    text = number(value, metric)
    return f"{text} %" if looked_up(metric).share and not undefined(value) else text


def signed(value: float | None, metric: str) -> str:
    """A difference of two values of a metric.

    >>> signed(0.0123, "accuracy"), signed(-0.5, "loss"), signed(-1e-9, "loss")
    ('+1.23', '-0.5000', '+0.0000')
    """
    if undefined(value):
        return NOTHING
    return f"{_in_unit(value, metric):+z.{_places(value, metric)}f}"


def interval(low: float | None, high: float | None, metric: str) -> str:
    """Both ends of an interval of values or of differences.

    >>> interval(0.5, 0.625, "accuracy")
    '[50.00, 62.50]'
    """
    if undefined(low) or undefined(high):
        return NOTHING
    return f"[{number(low, metric)}, {number(high, metric)}]"


def probability(p: float | None) -> str:
    """A p-value in a table."""
    return "<0.001" if p is not None and p < 0.001 else decimal(p, 3)


def p_value(p: float) -> str:
    """A p-value in a sentence.

    >>> p_value(0.0004), p_value(0.05)
    ('p < 0.001', 'p = 0.050')
    """
    return "p < 0.001" if p < 0.001 else f"p = {decimal(p, 3)}"


def size(amount: float | None) -> str:
    """A number of bytes, in steps of a thousand.

    >>> size(999), size(999.6), size(3_855_000)
    ('999 B', '1 kB', '3.85 MB')
    """
    return " ".join(_scaled(amount, UNITS))


def count(amount: float | None) -> str:
    """How many there are, to three digits.

    >>> count(5), count(25_200)
    ('5', '25.2k')
    """
    return "".join(_scaled(amount, PREFIXES))


def whole(amount: float | None) -> str:
    """How many there are, exactly.

    >>> whole(1260)
    '1,260'
    """
    return NOTHING if undefined(amount) else f"{amount:,.0f}"


def undefined(value: float | None) -> bool:
    """Whether there is no number to write."""
    return value is None or math.isnan(value)


def _places(value: float | None, metric: str) -> int:
    """Decimals of a value: fixed, or as many as its significant figures take."""
    found = looked_up(metric)
    if not found.figures or value is None or not math.isfinite(value) or value == 0:
        return found.decimals
    return max(0, found.figures - 1 - math.floor(math.log10(abs(value))))


def _in_unit(value: float | None, metric: str) -> float | None:
    return 100 * value if value is not None and looked_up(metric).share else value


def _scaled(amount: float | None, units: tuple[str, ...]) -> tuple[str, ...]:
    """Three digits and the unit they are in; 999.6 is a thousand, since it would be read as one."""
    if amount is None or math.isnan(amount):
        return (NOTHING,)
    for unit in units[:-1]:
        if amount < 999.5:
            return f"{amount:.3g}", unit
        amount /= 1000
    return f"{amount:,.0f}" if amount >= 999.5 else f"{amount:.3g}", units[-1]
