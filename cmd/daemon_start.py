"""`pinfoldd` from its first moment, before the daemon has handlers of signals of its own.

Nothing is collected until the daemon collects by itself: what is loaded at the start stays, and
Python goes through it ninety times meanwhile.
"""

import gc
import signal


def share_heap() -> bool:
    """Give threads that begin from here on no heaps of their own; whether the C library can.

    Python's threads never allocate at the same time, so that a heap for each would only lie idle:
    3 MiB on a node with a thousand containers.
    """
    arena_max = -8  # M_ARENA_MAX in malloc.h of the GNU C library
    try:
        # Some Pythons are built without it, and that must not keep the daemon from its start.
        import ctypes

        return bool(ctypes.CDLL(None).mallopt(arena_max, 1))
    except (ImportError, OSError, AttributeError):
        # Or another C library, which has no heaps per thread.
        return False


def main() -> None:
    """Load the daemon and run it."""
    gc.disable()
    # Ctrl-C ends it without a word, as SIGTERM does.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Each would end it, too. The configuration is still to be read, or watched already.
    # Nor does SIGUSR2 mean anything to it, which log rotation and the like may send.
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    share_heap()
    # Imported here: that is what is to be spared the collector.
    from .pinfoldd import main as run

    run()


if __name__ == "__main__":
    main()
