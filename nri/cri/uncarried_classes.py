"""Classes of a container that CRI has no field for: told of, or a reason to refuse it."""

from ...policy.configuration.config import Config, OnBadAnnotation
from ..dispatch.answer import Answer
from ..dispatch.report import Report, Unsupported


class UncarriedClasses:
    """Classes that decisions name and the proxy cannot hand on."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._told: set[str] = set()

    def objection(self, answer: Answer, config: Config) -> str:
        """The reason to refuse a container, where the configuration wants that; else a warning.

        A class is an annotation's wish, so `onBadAnnotation` is about it; each is warned of once.
        """
        named = _named(answer)
        if not named:
            return ""
        if config.on_bad_annotation is OnBadAnnotation.FAIL:
            return f"{', '.join(named)}: CRI cannot carry it — use --runtime nri"
        for one in named:
            if one not in self._told:
                self._told.add(one)
                self._report(
                    Unsupported(
                        f"{one}: CRI cannot carry it, so its containers run without — use"
                        " --runtime nri"
                    )
                )
        return ""


def _named(answer: Answer) -> list[str]:
    found: list[str] = []
    if answer.scheduling is not None:
        found.append(f"scheduling class {answer.scheduling.name!r}")
    if answer.classes.rdt:
        found.append(f"cache class {answer.classes.rdt!r}")
    if answer.classes.blockio:
        found.append(f"block device class {answer.classes.blockio!r}")
    if answer.interleaved is not None:
        found.append("interleaved memory")
    return found
