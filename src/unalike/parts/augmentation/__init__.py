"""What clients do to their rows before they train on them."""
