"""What a client learns in addition to the task, to obtain a good representation."""
