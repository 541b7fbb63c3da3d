"""The interface of all targets: describe yourself, and answer cases with outcomes."""

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
        """The number of processes that were started."""
        ...

    @property
    def unjudged(self) -> int:
        """The number of outcomes that wait for an earlier one: `ask` returns them in the order of the cases."""
        ...

    def describe(self) -> TargetDescription:
        """Return the description of the target. Raises CannotStart."""
        ...

    def ask(
        self, cases: Sequence[CaseSummary], request_for: RequestMaker, *, forget_faults: bool = False
    ) -> Iterator[Outcome]:
        """Send the request of each case, and return the outcomes in their order. Raises CannotStart.

        With `forget_faults`, faults of earlier cases do not count when the target is given up.
        """
        ...

    def stop(self) -> None:
        """End the target from another thread: a thread that waits for an answer gets CannotStart."""
        ...

    def close(self) -> None:
        """End all processes of the target."""
        ...


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target that is not started yet: its name, its start command and its limits."""

    name: str
    launch: LaunchSpec | None = None
    """The start command; None: the reference, which answers in this process."""
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    jobs: int = 1
    """The maximum number of its processes."""
    fork_server: ForkServer | None = field(default=None, compare=False)
    """A fork server shared by all users of this target; None: each user starts one."""

    def open(self) -> Target:
        """Return the target; its processes start when they are needed."""
        # The imports take long, so they run while the first process starts.
        if self.launch is None:
            from conformance.targets.reference import ReferenceTarget

            return ReferenceTarget()
        from conformance.targets._worker_pool import WorkerPool

        return WorkerPool(self.launch, self.limits, self.jobs, self.fork_server)


@contextmanager
def loaded_once(spec: TargetSpec) -> Iterator[TargetSpec]:
    """Yield the target with a shared fork server, for users that open it one after another.

    A Python module begins to load at once.
    """
    if spec.launch is None:
        yield spec
        return
    with closing(ForkServer(spec.launch, spec.limits.startup)) as fork_server:
        if spec.launch.forks:
            fork_server.prestart(spec.limits.memory)
        yield replace(spec, fork_server=fork_server)
