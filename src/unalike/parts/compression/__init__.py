"""How uploads are made smaller: which entries travel, how they are written, what is remembered."""
