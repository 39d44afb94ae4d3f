"""Folders that tests read and do not change, written once."""

import pytest
from written_runs import config, write_comparison, write_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    return write_run(config(tmp_path_factory.mktemp("runs") / "fedavg"))


@pytest.fixture(scope="session")
def comparison_folder(tmp_path_factory):
    return write_comparison(tmp_path_factory.mktemp("comparisons") / "skews")
