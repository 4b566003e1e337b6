"""Documents as JSON for tools."""

import msgspec


def json_text(document: object) -> str:
    """A document as one sorted JSON text."""
    # Imported where it is asked for: most people want text.
    import json

    return json.dumps(msgspec.to_builtins(document), indent=2, sort_keys=True, ensure_ascii=False)
