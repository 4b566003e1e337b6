"""End-to-end tests run where they are asked for: they need root, Debian's archive and minutes."""

import faulthandler
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

_HERE: Final = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips the tests of this folder unless they, or a folder of them, were named."""
    named = (config.invocation_params.dir / one.partition("::")[0] for one in config.args)
    if any(path.resolve().is_relative_to(_HERE) for path in named):
        return
    reason = pytest.mark.skip(reason="end-to-end; `make e2e` runs it")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Keeps pytest from dumping stacks after two minutes: each wait here has an end of its own."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line although pytest captures what tests print."""
    plugins = request.config.pluginmanager
    reporter: pytest.TerminalReporter | None = plugins.get_plugin("terminalreporter")
    # pytest keeps the type of this plugin to itself.
    capture: Any = plugins.get_plugin("capturemanager")

    def write(text: str) -> None:
        if reporter is not None:
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(text)

    return write
