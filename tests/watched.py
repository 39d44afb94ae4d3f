"""What is seen of the jobs behind docs/results while they run, and when they are to stop."""

import importlib
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
jobs = importlib.import_module("evidence_jobs")


class Asked(jobs.Watch):
    """Asks a run to stop after a round, or ends it there as a crash would; counts rounds."""

    def __init__(self, stop=None, crash=None, every=1e9):
        super().__init__(lambda told: None, every)
        self.asked, self.crash, self.seen = stop or {}, crash, []

    def see(self, run, done, rounds, before):
        super().see(run, done, rounds, before)
        self.seen.append((run, done))
        self.stop |= done == self.asked.get(run)
        if done == self.crash:
            raise MemoryError
