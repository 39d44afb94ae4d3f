"""The same recipe where the data are: a coordinator, its sites, and what travels between them."""
