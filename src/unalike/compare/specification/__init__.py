"""What is compared: the file of a comparison, and the variants it makes."""
