"""The address of a running broker: HOST:PORT, or a broker.yaml with an address."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from conformance.errors import FileError
from conformance.files.yaml_mapping import YamlMapping
from conformance.targets.manifests import BROKER

_PREFIX = "conformance-"
"""The default prefix of every topic."""
_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\s]+)):(?P<port>[0-9]{1,5})\Z")
_Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,200}$")]
_Topic = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]


class ConnectionSecurity(Struct, frozen=True):
    """TLS and SASL of a connection, before its first other request."""

    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """The name in the broker's certificate; empty for the host of the connection."""
    username: str = ""
    """The user name of SASL/PLAIN; empty for no login."""
    password: str = ""


class BrokerAddress(Struct, frozen=True):
    """The address and the name of a broker."""

    host: str
    port: int
    name: str
    version: str = ""
    language: str = ""
    prefix: str = _PREFIX
    """The prefix of the topics that the suite creates."""
    topics: tuple[str, ...] = ()
    """Existing topics that are used instead."""
    brokers: tuple[tuple[str, int], ...] = ()
    """Further addresses of the same cluster to which the run may connect."""
    follow_redirects: bool = False
    """If True, the run may connect to every address that the broker returns."""
    security: ConnectionSecurity = ConnectionSecurity()
    log_dir: Path | None = None
    """The folder of its log, with one folder a partition; None if it is unknown."""
    pids: tuple[int, ...] = ()
    """The processes of a bundled broker, whose memory is measured."""

    def of_run(self, run: str) -> BrokerAddress:
        """Return the address with a prefix that only the topics of this run have."""
        return replace(self, prefix=f"{self.prefix}{run}-")


class _ManifestPart(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A part of a broker.yaml."""


class _Tls(_ManifestPart):
    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""


class _Sasl(_ManifestPart):
    mechanism: Literal["PLAIN"]
    username: str
    password_variable: str


class _AddressFile(_ManifestPart):
    address: str
    prefix: _Prefix = ""
    topics: Annotated[tuple[_Topic, ...], msgspec.Meta(min_length=1)] = ()
    brokers: tuple[str, ...] = ()
    tls: _Tls | None = None
    sasl: _Sasl | None = None


def address_of(text: str) -> BrokerAddress | None:
    """Return the address in a text or in a file; None for the file of a broker that the suite starts.

    Raises FileError, and ValueError if the text is neither a file nor an address.
    """
    return _address_in_file(Path(text)) if Path(text).name == BROKER else _address(text)


def _address(text: str) -> BrokerAddress:
    return BrokerAddress(*_host_and_port("address", text), f"broker {text}")


def _host_and_port(key: str, text: str) -> tuple[str, int]:
    """Return the host and the port in a text. Raises ValueError."""
    match = _HOST_AND_PORT.match(text)
    if not match or not 0 < int(match["port"]) < 1 << 16:
        raise ValueError(f"{key}: {text!r} is not HOST:PORT")
    return match["six"] or match["host"], int(match["port"])


def _address_in_file(path: Path) -> BrokerAddress | None:
    from conformance.files.yaml_loader import convert, line_of, load

    row = load(path)
    if not isinstance(row, YamlMapping) or "address" not in row:
        return None
    try:
        return _made(convert(path, row, _AddressFile), path.parent)
    except ValueError as problem:
        raise FileError(path, str(problem), line_of(path, str(problem).partition(":")[0])) from None


def _made(described: _AddressFile, folder: Path) -> BrokerAddress:
    """Return the address of a checked file. Raises ValueError."""
    topics = described.topics
    if topics and (described.prefix or len({*topics}) < len(topics)):
        raise ValueError("topics: expected each topic once, and no prefix next to topics")
    security = _logging_in(described.sasl, _with_tls(described.tls, folder))
    brokers = tuple(_host_and_port("brokers", given) for given in described.brokers)
    prefix = described.prefix or _PREFIX
    return replace(_address(described.address), prefix=prefix, topics=topics, brokers=brokers, security=security)


def _with_tls(tls: _Tls | None, folder: Path) -> ConnectionSecurity:
    """Return the TLS settings; paths are relative to the folder of broker.yaml. Raises ValueError."""
    if tls is None:
        return ConnectionSecurity()
    named = {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key}
    files = {part: folder / name for part, name in named.items() if name}
    if missing := [part for part, file in files.items() if not file.is_file()]:
        raise ValueError(f"tls: {missing[0]}: there is no file {files[missing[0]]}")
    if tls.key and not tls.certificate:
        raise ValueError("tls: key: expected a certificate, too")
    part = "ca"
    try:
        context = ssl.create_default_context(cafile=files.get(part))
        if tls.certificate:
            part = "certificate"
            # An empty password avoids a prompt for an encrypted key, which is an error here.
            context.load_cert_chain(files[part], files.get("key"), password="")
    except (OSError, ValueError) as problem:
        raise ValueError(f"tls: {part}: {files.get(part, '')} cannot be used: {problem}") from None
    return ConnectionSecurity(context, tls.server_name)


def _logging_in(sasl: _Sasl | None, security: ConnectionSecurity) -> ConnectionSecurity:
    """Add the login. Raises ValueError."""
    if sasl is None:
        return security
    password = os.environ.get(sasl.password_variable)
    if not sasl.username or not password:
        variable = sasl.password_variable
        raise ValueError(f"sasl: expected a username, and a password in the environment variable {variable!r}")
    return replace(security, username=sasl.username, password=password)
