"""Local steps without Python between them: traced on a CPU, recorded or compiled on a GPU."""
