"""Files and folders as values of options and arguments."""

from pathlib import Path
from typing import Any

import click

from ...topology.sets.base_errors import PinfoldError

_FILE = "name a readable file"


class PathType(click.Path):
    """A file or a folder by its name. An empty one, as of a shell's unset variable, names none.

    To Python it would be the present folder, and what is read or written would be there.
    """

    def __init__(
        self, *, remedy: str = _FILE, path_type: type[Any] | None = None, dir_okay: bool = True
    ) -> None:
        """`remedy`: what to name."""
        super().__init__(path_type=path_type, readable=False, dir_okay=dir_okay)
        self._remedy = remedy

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises `PinfoldError` where it is empty."""
        if not str(value) or value == Path():
            raise self._error("has no name", param)
        return super().convert(value, param, ctx)

    def _error(self, what: str, param: click.Parameter | None) -> PinfoldError:
        is_option = isinstance(param, click.Option)
        where = param.opts[0] if param is not None and is_option else "FILE"
        return PinfoldError(f"{where}: {what} — {self._remedy}")


class FolderType(PathType):
    """A folder by its name, which may have to be there already."""

    def __init__(self, *, remedy: str, is_there: bool = False) -> None:
        """`remedy`: what to name; `is_there`: whether it must be one already."""
        super().__init__(remedy=remedy, path_type=Path)
        self._is_there = is_there

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path. Raises `PinfoldError`."""
        path = Path(super().convert(value, param, ctx))
        if self._is_there and not path.is_dir():
            raise self._error(f"{path}: no folder is there", param)
        return path
