"""The node at one moment, as the expressions of scenarios see it."""

from collections.abc import Mapping

from msgspec import Struct

from ..engine.engine import Engine
from ..tuning.interrupts import Interrupt
from .expressions.evaluator import evaluate
from .expressions.failed_values import failed_values
from .expressions.values import Function, Value
from .scenario_facts import (
    FACT_FUNCTIONS,
    RESOURCES,
    MachineNames,
    PerContainer,
    classes_of,
    fact_names,
    published,
    served_by,
    speed_select_functions,
    zones,
)
from .simulated_runtime import Running, Runtime


class Present(Struct, frozen=True, kw_only=True):
    """Policy (None before it starts), runtime and hardware, as an expression can ask for them."""

    engine: Engine | None
    runtime: Runtime
    names: MachineNames
    interrupts: tuple[Interrupt, ...] = ()
    told: tuple[str, ...] = ()
    """Sentences that operators were told."""

    def value(self, expression: str, remembered: Mapping[str, Value]) -> Value:
        """The value of an expression; raises what `evaluate` does.

        `remembered` are values kept under a name before.
        """
        return evaluate(expression, {**self._values(), **remembered}, self._functions())

    def values_in(self, expression: str, remembered: Mapping[str, Value]) -> tuple[str, ...]:
        """The values inside an expression that is false, for people."""
        return failed_values(expression, {**self._values(), **remembered}, self._functions())

    def _values(self) -> dict[str, Value]:
        runtime = self.runtime
        running = runtime.by_key()
        # Facts of thousands of containers, of which an expression asks for one: each on demand.
        values = fact_names(self.names, running, runtime.effective_cpus, runtime.effective_mems)
        values["quota"] = PerContainer(running, self._has_quota)
        values["rules"] = PerContainer(running, self._rules_of)
        values["sched"] = PerContainer(running, lambda one: one.scheduling)
        values["irq"] = served_by(self.engine, self.interrupts, self.names)
        values["zones"] = zones(self.engine) if self.engine else {}
        values[RESOURCES] = published(self.engine)
        return values

    def _has_quota(self, one: Running) -> Value:
        has_limit = one.container.resources.cpu_limit_milli is not None
        is_lifted = self.engine is not None and self.engine.lifts_quota(one.container.id)
        return has_limit and not is_lifted

    def _rules_of(self, one: Running) -> Value:
        """Names of the rules that gave a container annotations, by these."""
        container = one.container
        if self.engine is not None:
            container = self.engine.containers.get(container.id, container)
        return {given.key: given.rule for given in container.given}

    def _functions(self) -> Mapping[str, Function]:
        def allocation_ids(name: Value) -> Value:
            if self.engine is None or not isinstance(name, str):
                return frozenset[Value]()
            known = self.engine.containers
            return frozenset[Value](
                one for one in self.engine.grants if name in (known[one].name, known[one].path)
            )

        def cpu_class(cpus: Value) -> Value:
            return classes_of(self.engine, cpus)

        def has_allocation(name: Value) -> Value:
            return bool(allocation_ids(name))

        def is_told(text: Value) -> Value:
            return any(str(text) in one for one in self.told)

        return {
            **FACT_FUNCTIONS,
            **speed_select_functions(self.engine),
            "allocation_ids": allocation_ids,
            "cpu_class": cpu_class,
            "has_allocation": has_allocation,
            "told": is_told,
        }
