"""``python -m unalike`` is the command ``unalike``."""

from unalike.cli.main import script

if __name__ == "__main__":
    script()
