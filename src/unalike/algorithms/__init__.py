"""One file per method: its equations at the head, then the code beside them."""
