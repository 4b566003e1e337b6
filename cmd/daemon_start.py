"""`pinfoldd` from its first moment: nothing is collected until the daemon collects by itself.

What is loaded at the start stays, and Python goes through it ninety times meanwhile.
"""

import gc


def main() -> None:
    """Load the daemon and run it."""
    gc.disable()
    # Imported here: that is what is to be spared the collector.
    from .pinfoldd import main as run

    run()


if __name__ == "__main__":
    main()
