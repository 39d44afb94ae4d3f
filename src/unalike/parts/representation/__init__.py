"""What a client learns beside the task to make its own representation a good one."""
