"""The address of a running broker, and its connection settings: HOST:PORT, or a broker.yaml with an address."""

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

_DEFAULT_PREFIX = "conformance-"
"""The default prefix of the names of topics that the suite creates."""
_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\s]+)):(?P<port>[0-9]{1,5})\Z")
_Prefix = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,200}$")]
_Topic = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]


class ConnectionSecurity(Struct, frozen=True):
    """The TLS and SASL settings of a connection."""

    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """The name in the broker's certificate; empty: the host of the connection."""
    username: str = ""
    """The user name for SASL/PLAIN; empty without a login."""
    password: str = ""


class BrokerAddress(Struct, frozen=True):
    """The address of a running broker, and its name in the reports."""

    host: str
    port: int
    name: str
    version: str = ""
    language: str = ""
    prefix: str = _DEFAULT_PREFIX
    """The prefix of the names of created topics."""
    topics: tuple[str, ...] = ()
    """Existing topics, used in place of created ones."""
    brokers: tuple[tuple[str, int], ...] = ()
    """Further addresses of the same cluster to which the run may connect."""
    follow_redirects: bool = False
    """If True, the run may connect to every address that the broker returns."""
    security: ConnectionSecurity = ConnectionSecurity()
    log_dir: Path | None = None
    """The folder of its segments, with a folder per partition; None if it is unknown."""
    pids: tuple[int, ...] = ()
    """The processes of a broker that the suite started; their memory is measured."""

    def of_run(self, run: str) -> BrokerAddress:
        """Return the address with a topic prefix that no other run uses."""
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


class _BrokerManifest(_ManifestPart):
    address: str
    prefix: _Prefix = ""
    topics: Annotated[tuple[_Topic, ...], msgspec.Meta(min_length=1)] = ()
    brokers: tuple[str, ...] = ()
    tls: _Tls | None = None
    sasl: _Sasl | None = None


def address_of(text: str) -> BrokerAddress | None:
    """Return the address in a text or a file; None for the file of a broker that the suite starts.

    Raises FileError, and ValueError for a text that is neither a file nor an address.
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
    from conformance.files.yaml_loader import load

    row = load(path)
    if not isinstance(row, YamlMapping) or "address" not in row:
        return None
    try:
        return _address_from_manifest(msgspec.convert(row, _BrokerManifest), path.parent)
    except ValueError as problem:  # msgspec.ValidationError is a ValueError
        parts = [
            part
            for name, part in row.items()
            if isinstance(part, YamlMapping) and re.search(rf"\b{name}\b", str(problem))
        ]
        raise FileError(path, str(problem), parts[0].line if parts else row.line) from None


def _address_from_manifest(manifest: _BrokerManifest, folder: Path) -> BrokerAddress:
    """Return the address in a manifest. Raises ValueError."""
    topics = manifest.topics
    if topics and (manifest.prefix or len({*topics}) < len(topics)):
        raise ValueError("topics: expected each topic once, and no prefix")
    security = _with_sasl(manifest.sasl, _with_tls(manifest.tls, folder))
    brokers = tuple(_host_and_port("brokers", text) for text in manifest.brokers)
    prefix = manifest.prefix or _DEFAULT_PREFIX
    return replace(_address(manifest.address), prefix=prefix, topics=topics, brokers=brokers, security=security)


def _with_tls(tls: _Tls | None, folder: Path) -> ConnectionSecurity:
    """Return the TLS settings; file names are relative to the folder of the manifest. Raises ValueError."""
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
            # An empty password keeps OpenSSL from a prompt for it: an encrypted key is an error.
            context.load_cert_chain(files[part], files.get("key"), password="")
    except (OSError, ValueError) as problem:
        raise ValueError(f"tls: {part}: {files.get(part, '')} cannot be used: {problem}") from None
    return ConnectionSecurity(context, tls.server_name)


def _with_sasl(sasl: _Sasl | None, security: ConnectionSecurity) -> ConnectionSecurity:
    """Return the settings with a SASL login. Raises ValueError."""
    if sasl is None:
        return security
    password = os.environ.get(sasl.password_variable)
    if not sasl.username or not password:
        variable = sasl.password_variable
        raise ValueError(f"sasl: expected a username, and a password in the environment variable {variable!r}")
    return replace(security, username=sasl.username, password=password)
