"""What was wrong once: every cause has cases in the corpus that failed before it was repaired.

Where it is tested elsewhere, that file stands in brackets.
"""

CAUSES = {
    "unproven checkpoint": "a checkpoint had no digest of its tensors, notes and round",
    "changed code": "own code that changed between a run and its resume was not noticed",
    "frozen": "parameters with requires_grad = False were trained and sent",
    "blind guard": "updates and losses had no absolute limit, so a run that was lost finished",
    "no fallback": "a forward pass that reads values was not computed one client at a time",
    "own exception": "an exception in own code after the start was a traceback",
    "own weights": "weights of an own rule were not checked",
    "sys.exit": "sys.exit in own code ended the command, even with code 0",
    "late annotations": "a module with dataclasses and late annotations could not be run",
    "long identifiers": "a column of 20-digit identifiers was a traceback of the table reader",
    "damaged archive": "a damaged, encrypted or lying NPZ was a traceback",
    "infinity": "spellings of infinity and of not-a-number made a number column text",
    "damaged records": "report and watch broke on a damaged folder",
    "finished run": "a finished run without a checkpoint was computed again",
    "damaged journal": "tune broke on a damaged journal",
    "absurd text": "integers of thousands of digits and deep nesting were tracebacks",
    "long names": "a folder's name of more than 255 characters was a traceback",
    "odd digits": "a place in a list was read by isdigit, which knows more than int",
    "absurd sizes": "sizes that never end were begun",
    "injected line": "a line break in --set dropped what came after it",
    "merged clients": "numbers too large for integers became one client",
    "odd bytes": "labels that are no UTF-8, and long doubles, were tracebacks",
    "wrong column": "a dropped label was ignored; label and client could be one column",
    "half begun": "a kill between the first two files left one out for ever",
    "file order": "equal checkpoints were not equal bytes (run/test_proof.py)",
    "odd requests": "malformed requests to watch had no answer (breaking/test_watch.py)",
    "global draws": "a forward pass that draws from a global generator made runs differ",
    "unbounded dependencies": "dependencies had no upper bound (test_dependencies.py)",
    "wording": "sentences that named the wrong thing",
    "stranger": "a stranger's folder ran the Python file that it names",
}
