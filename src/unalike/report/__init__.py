"""Figures and tables from plain records of a run; nothing here touches live objects."""

from unalike.callable_package import make_callable

make_callable(__name__, "unalike.comparing:report")
