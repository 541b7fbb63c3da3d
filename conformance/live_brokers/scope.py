"""The topics, transactional ids and hosts that a run may use: those that the user named, and its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from msgspec import Struct

from conformance.cases.model import Value
from conformance.targets.broker_address import BrokerAddress

_TRANSACTIONAL_ID = "TransactionalId"
_NAMES: Mapping[str, tuple[str, ...]] = {
    "AddPartitionsToTxn": (f"V3AndBelow{_TRANSACTIONAL_ID}", "V3AndBelowTopics.Name"),
    "CreateTopics": ("Topics.Name",),
    "DeleteRecords": ("Topics.Name",),
    "DeleteTopics": ("Topics.Name", "TopicNames"),
    "EndTxn": (_TRANSACTIONAL_ID,),
    "InitProducerId": (_TRANSACTIONAL_ID,),
    "Produce": (_TRANSACTIONAL_ID, "TopicData.Name"),
}
"""The fields that name a topic or a transactional id, of each request that changes one."""


class OutOfScope(Exception):
    """A topic, a transactional id or a host that the user did not name; the message contains it."""


class Scope(Struct, frozen=True):
    """The names and places that a run may use. Without arguments, it contains none."""

    prefix: str = ""
    """The first characters of every topic and transactional id of the run."""
    topics: tuple[str, ...] = ()
    """Topics that the user named; the run writes to them too."""
    places: tuple[tuple[str, int], ...] = ()
    """Hosts with ports that the user named."""
    follow_redirects: bool = False
    """Whether the run connects to every leader and coordinator that a broker returns."""

    @classmethod
    def of(cls, address: BrokerAddress) -> Scope:
        """Return the scope of a run on the broker at an address."""
        places = ((address.host, address.port), *address.brokers)
        return cls(address.prefix, address.topics, places, address.follow_redirects)

    def check_request(self, request: str, body: Mapping[str, Value]) -> None:
        """Raise OutOfScope for a request that changes a topic or transaction outside the run."""
        for path in _NAMES.get(request, ()):
            topics = () if path.endswith(_TRANSACTIONAL_ID) else self.topics
            for name in _values(body, path):
                if not (name in topics or (self.prefix and name.startswith(self.prefix))):
                    raise OutOfScope(f"{request}: {name!r:.60} does not belong to this run")

    def check_place(self, host: str, port: int) -> None:
        """Raise OutOfScope for a leader or coordinator at a place that the user did not name.

        A loopback address may lead to another one: both are on this machine.
        """
        if self.follow_redirects or (host, port) in self.places:
            return
        if is_loopback(host) and any(is_loopback(named) for named, _ in self.places):
            return
        raise OutOfScope(
            f"the broker returns {host!r:.260} port {port} as a leader or coordinator, which was not named: "
            "--follow-redirects connects to it, and `brokers:` of a broker.yaml names it"
        )

    def own(self, name: str) -> str:
        """Return a name of the run, made from another one."""
        return name if name.startswith(self.prefix) else f"{self.prefix}{name}"


def is_loopback(host: str) -> bool:
    """Return whether a host name is always this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _values(body: Mapping[str, Value], path: str) -> Iterator[str]:
    """Yield the names at a path of a body, without nulls."""
    first, _, rest = path.partition(".")
    given = body.get(first)
    for one in given if isinstance(given, list | tuple) else (given,):
        if rest and one is not None:
            yield from _values(one, rest)
        elif one is not None:
            yield one
