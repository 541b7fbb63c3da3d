"""Whatever is judged, behind one door: it describes itself, and answers cases with outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from conformance.process.fork_server import ForkServer
from conformance.process.launcher import LaunchSpec
from conformance.targets.limits import ResourceLimits

if TYPE_CHECKING:
    from conformance.cases.model import CaseSummary, Outcome
    from conformance.targets.protocol import RequestMaker, TargetDescription


class Target(Protocol):
    """A target to which cases are sent. The caller must `close` it."""

    @property
    def starts(self) -> int:
        """How often a process of it was started."""
        ...

    def describe(self) -> TargetDescription:
        """What the target says of itself. Raises CannotStart."""
        ...

    def ask(
        self, cases: Sequence[CaseSummary], request_for: RequestMaker, *, forget_faults: bool = False
    ) -> Iterator[Outcome]:
        """Send the request of each case, and return the outcomes in their order. Raises CannotStart.

        With `forget_faults`, faults of earlier cases do not count when the target is given up.
        """
        ...

    def stop(self) -> None:
        """End it from another thread: whoever waits for it gets CannotStart."""
        ...

    def close(self) -> None:
        """End whatever runs of it."""
        ...


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target that is not started yet: what it is called, how it is started, and on which conditions it runs."""

    name: str
    launch: LaunchSpec | None = None
    """How its process is started; None: the reference, which answers in this process."""
    allowance: ResourceLimits = field(default_factory=ResourceLimits)
    jobs: int = 1
    """How many processes of it may run at once."""
    warm: ForkServer | None = field(default=None, compare=False)
    """What those who open it share; None: each loads it for himself."""

    def open(self) -> Target:
        """The target, ready to be asked; its processes start when they are needed."""
        # What asks it is much code: it is loaded while the first process starts.
        if self.launch is None:
            from conformance.targets.reference import ReferenceTarget

            return ReferenceTarget()
        from conformance.targets.worker_pool import WorkerPool

        return WorkerPool(self.launch, self.allowance, self.jobs, self.warm)


@contextmanager
def loaded_once(spec: TargetSpec) -> Iterator[TargetSpec]:
    """The target for those who open it one after another: its processes are forked from one that has it loaded.

    A Python module begins to load at once.
    """
    if spec.launch is None:
        yield spec
        return
    with closing(ForkServer(spec.launch, spec.allowance.startup)) as warm:
        if spec.launch.forks:
            warm.prestart(spec.allowance.memory)
        yield replace(spec, warm=warm)
