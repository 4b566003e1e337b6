"""Texts of strangers that are safe to show, in the log and on a terminal."""


def escaped(text: str) -> str:
    r"""A text with what could end a line, or steer a reader's terminal, as JSON would write it.

    >>> print(escaped("web\n\x1b[2J"))
    web\n\u001b[2J
    """
    if text.isprintable():
        return text
    # Imported for the few that are not: a command that asks the daemon needs nothing else of it.
    import json

    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def escaped_for_encoding(error: UnicodeError) -> tuple[str, int]:
    r"""Letters that an encoding lacks, as JSON would write them: a document stays one that reads.

    An error handler of `codecs`: not all of Python's own escapes are JSON's. Raises other errors.

    >>> escaped_for_encoding(UnicodeEncodeError("ascii", "caf\xe9", 3, 4, "ordinal not in range"))
    ('\\u00e9', 4)
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    import json

    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
