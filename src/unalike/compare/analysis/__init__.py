"""From finished runs to what may be claimed of them."""
