"""`pinfold` from its first moment: Ctrl-C while it loads ends it without a word."""

import signal


def main() -> None:
    """Load the command line and run it."""
    # Who started it with interrupts ignored, as a shell does with "&" in a script, wants them so.
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Imported here: where it is interrupted nobody wants to know.
    from .pinfold import main as run

    if is_heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
