"""Figures and tables from plain records of a run; nothing here touches live objects."""
