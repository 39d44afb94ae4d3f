"""What travels: messages as bytes, checked before use, and the connections that carry them."""
