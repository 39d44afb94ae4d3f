"""Steps as machine code: traced, written in C++, and compiled where there is a compiler."""
