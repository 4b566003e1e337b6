"""Folders as values of options."""

from pathlib import Path

import click

from ...topology.sets.base_errors import PinfoldError


class FolderType(click.Path):
    """A folder by its name. An empty one, as of a shell's unset variable, names none.

    To Python it would be the present folder, and what is written would land there.
    """

    def __init__(self, *, remedy: str, is_there: bool = False) -> None:
        """`remedy`: what to name; `is_there`: whether it must be one already."""
        super().__init__(path_type=Path, readable=False)
        self._remedy = remedy
        self._is_there = is_there

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path. Raises `PinfoldError`."""
        option = param.opts[0] if param is not None else "folder"
        if not value:
            raise PinfoldError(f"{option}: has no name — {self._remedy}")
        path = Path(str(value))
        if self._is_there and not path.is_dir():
            raise PinfoldError(f"{option}: {path}: no folder is there — {self._remedy}")
        return path
