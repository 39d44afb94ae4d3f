"""One client, wherever it is: its whole round, and what it keeps until the next one."""
