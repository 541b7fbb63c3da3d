"""A connection to a broker: one request at a time, in versions that both sides support, with a timeout."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from conformance.codec.derived_fields import Values
from conformance.definitions.request_frames import MalformedFrame, names, request_frame, response_in, supported_versions
from conformance.live_brokers.scope import Scope
from conformance.targets.broker_address import ConnectionSecurity

_SIZE = _CORRELATION = struct.Struct(">i")
_LARGEST = 128 << 20
"""The largest response, in bytes."""
_CHUNK = 1 << 16
_ALERT = 0x1503
"""The first two bytes of a TLS alert."""
CLIENT = "kafka-conformance"


def request_names() -> Mapping[int, str]:
    """Return the names of requests to brokers by API key."""
    return {**names(), 19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords"}


class ConnectionClosed(Exception):
    """A connection that the broker closed; the message states when."""


class AccessDenied(ConnectionClosed):
    """A connection that TLS or SASL denies; the message has the reason."""


class ResponseTimeout(Exception):
    """A broker that did not answer in time; the message has the timeout."""


class BrokerUnreachable(Exception):
    """A broker that accepts no connection any more; the message has the last error."""


class VersionNotSupported(Exception):
    """A request without a version that both the broker and the suite support."""


@contextmanager
def _translate_errors(seconds: float) -> Iterator[None]:
    """Turn errors of a socket into ResponseTimeout or ConnectionClosed."""
    try:
        yield
    except TimeoutError:
        raise ResponseTimeout(f"no answer within {seconds:g} s") from None
    except (ConnectionError, ssl.SSLError) as error:
        raise ConnectionClosed(f"the connection ended: {error.strerror or error}") from None


class BrokerConnection:
    """A connection to one broker. `close` it."""

    def __init__(
        self,
        host: str,
        port: int,
        seconds: float,
        security: ConnectionSecurity = ConnectionSecurity(),  # noqa: B008
        scope: Scope = Scope(),  # noqa: B008
    ) -> None:
        """Connect, request the versions, and log in.

        Raises OSError, ConnectionClosed, ResponseTimeout or MalformedFrame; `seconds` bound each answer.

        Requests that change topics or transactions must use names in `scope`.
        """
        self._seconds = seconds
        self.scope = scope
        self._correlation = 0
        self._socket = socket.create_connection((host, port), timeout=seconds)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.tls is not None:
                self._encrypt(security.tls, security.server_name or host)
            self.offered = self._versions()
            if security.username:
                self._log_in(security.username, security.password)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def is_idle(self) -> bool:
        """Whether it is open and has no unexpected input."""
        try:
            self._socket.settimeout(0)
            self._socket.recv(1)  # also reads messages of TLS itself
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def version(self, name: str, low: int = 0, high: int = 1 << 15) -> int:
        """Return the highest version from `low` to `high` that both sides support. Raises VersionNotSupported."""
        least, most = self.offered.get(name, (0, -1))
        known = supported_versions(name)
        best = min(most, high, known.high)
        if best < max(least, low, known.low):
            raise VersionNotSupported(f"{name} {low} to {min(high, known.high)}" if high <= known.high else name)
        return best

    def ask(self, name: str, version: int, body: Values) -> Values:
        """Send a request and return the body of its response.

        Raises OutOfScope, ConnectionClosed, ResponseTimeout, MalformedFrame or OSError.
        """
        self.scope.check_request(name, body)
        self._correlation += 1
        frame = request_frame(self._correlation, name, version, body, CLIENT)
        answer = self.exchange(frame)
        correlation, response = response_in(answer, name, version)
        if correlation != self._correlation:
            raise MalformedFrame(
                f"{name}Response {version}: correlation id {correlation} instead of {self._correlation}"
            )
        return response

    def send_without_response(self, name: str, version: int, body: Values) -> bool:
        """Send a request without a response, and return whether one arrives all the same. Raises as `ask`.

        A second request follows it. The first response belongs to one of the two.
        """
        self.scope.check_request(name, body)
        self._correlation += 1
        frame = request_frame(self._correlation, name, version, body, CLIENT)
        following = request_frame(self._correlation + 1, "ApiVersions", 0, {}, CLIENT)
        self.send(_SIZE.pack(len(frame)) + frame + _SIZE.pack(len(following)) + following)
        (first,) = _CORRELATION.unpack_from(self.receive())
        is_answered: bool = first == self._correlation
        if is_answered:
            (first,) = _CORRELATION.unpack_from(self.receive())
        self._correlation += 1
        if first != self._correlation:
            raise MalformedFrame(f"ApiVersionsResponse 0: correlation id {first} instead of {self._correlation}")
        return is_answered

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the next one, both without their size.

        Raises ConnectionClosed, ResponseTimeout, MalformedFrame or OSError.
        """
        self.send(_SIZE.pack(len(frame)) + frame)
        return self.receive()

    def send(self, data: bytes) -> None:
        """Send raw bytes. Raises ConnectionClosed, ResponseTimeout or OSError."""
        with _translate_errors(self._seconds):
            self._socket.settimeout(self._seconds)
            self._socket.sendall(data)

    def receive(self, seconds: float = 0.0) -> bytes:
        """Return the next frame without its size; `seconds` replace the usual timeout.

        Raises ConnectionClosed, ResponseTimeout, MalformedFrame or OSError.
        """
        seconds = seconds or self._seconds
        deadline = time.monotonic() + seconds
        with _translate_errors(seconds):
            (size,) = _SIZE.unpack(self._take(_SIZE.size, deadline))
            if not 0 <= size <= _LARGEST:
                is_tls = size >> 16 == _ALERT
                raise MalformedFrame("an alert of TLS: it is spoken there" if is_tls else f"a response of {size} bytes")
            return self._take(size, deadline)

    def _take(self, count: int, deadline: float) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            part = self._socket.recv(min(count - len(taken), _CHUNK))
            if not part:
                raise ConnectionClosed(
                    "the connection was closed without an answer" if not taken else "an answer was cut"
                )
            taken += part
        return bytes(taken)

    def _encrypt(self, tls: ssl.SSLContext, name: str) -> None:
        """Start TLS. Raises AccessDenied or ResponseTimeout."""
        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=name)
        except TimeoutError:
            raise ResponseTimeout(f"no answer to TLS within {self._seconds:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise AccessDenied(f"TLS: the broker's certificate is not trusted: {error.verify_message}") from None
        except (ConnectionError, ssl.SSLError) as error:
            raise AccessDenied(f"TLS: the handshake fails: {error.strerror or error}") from None

    def _log_in(self, username: str, password: str) -> None:
        """Log in by SASL/PLAIN (RFC 4616). Raises AccessDenied, or as `ask`."""
        try:
            taken = self.ask("SaslHandshake", self.version("SaslHandshake", low=1), {"Mechanism": "PLAIN"})
            if taken["ErrorCode"]:
                offers = ", ".join(taken["Mechanisms"]) or "none"
                raise AccessDenied(
                    f"SASL: PLAIN is refused with error {taken['ErrorCode']}; mechanisms there: {offers}"
                )
            token = f"\0{username}\0{password}".encode()
            answer = self.ask("SaslAuthenticate", self.version("SaslAuthenticate"), {"AuthBytes": token})
        except VersionNotSupported as problem:
            raise AccessDenied(f"SASL: {problem} is not offered") from None
        if answer["ErrorCode"]:
            message = answer["ErrorMessage"] or "no error message"
            raise AccessDenied(f"SASL: the broker rejects the login with error {answer['ErrorCode']}: {message}")

    def _versions(self) -> Mapping[str, tuple[int, int]]:
        """Return the lowest and highest version that the broker offers of each known request."""
        known = request_names()
        response = self.ask("ApiVersions", 0, {})
        if response["ErrorCode"]:
            raise MalformedFrame(f"ApiVersions 0 is answered with error {response['ErrorCode']}")
        return {
            known[row["ApiKey"]]: (row["MinVersion"], row["MaxVersion"])
            for row in response["ApiKeys"]
            if row["ApiKey"] in known
        }
