"""The version of Pinfold; pyproject.toml takes it from here."""

from typing import Final

# Not asked of the installed package: the library that knows takes 0.7 MiB for good.
VERSION: Final = "0.1.0"
