"""Sending JSON over HTTP with the standard library: one deadline a try, retries, growing pauses."""

from __future__ import annotations

import http.client
import io
import json
import random
import socket
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ...loader.errors import UsageError

# Seconds from the connection to the last byte of the answer, however slowly it drips.
TIMEOUT = 10.0
PAUSES = (0.5, 1.0, 2.0, 4.0)
MOST_PAUSE = 20.0
"""The longest pause in seconds that a receiver may ask for; whoever asks for more is left alone."""
MOST_BYTES = 4 << 20
MOST_WAIT = 1e9
_RETRYABLE = frozenset((408, 425, 429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back; status 0 means that no answer came, `words` says why.

    `reference` is what the receiver calls the thing that was made or changed, where it says so;
    `wait` how many seconds it asks to be left alone, 0 where it does not say.
    """

    status: int
    body: bytes
    words: str
    reference: str = ""
    wait: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the receiver took it."""
        return 200 <= self.status < 300

    @property
    def retryable(self) -> bool:
        """Whether trying again may help; GitHub says 403 where it asks to wait."""
        limited = self.status == 403 and self.wait > 0
        return self.status == 0 or self.status in _RETRYABLE or limited


Transport = Callable[[str, str, bytes | None, Mapping[str, str]], Reply]


def send_with_retries(
    method: str,
    url: str,
    body: object,
    headers: Mapping[str, str],
    *,
    transport: Transport | None = None,
    pause: Callable[[float], None] | None = None,
) -> Reply:
    """Send `body` as JSON; retry what may pass, with pauses of 0.5, 1, 2 and 4 seconds or so.

    A receiver that asks for a longer pause, with Retry-After, gets it; one that asks for more than
    20 seconds is not tried again now.

    Raises:
        UsageError: the URL is not http or https, or it or a header cannot be sent.
    """
    if not _is_web_address(url):
        raise UsageError("the receiver's address is no http or https URL; check the environment")
    data = None if body is None else json.dumps(body).encode()
    sender, wait = transport or send, pause or time.sleep
    reply = sender(method, url, data, headers)
    for seconds in PAUSES:
        if not reply.retryable or reply.wait > MOST_PAUSE:
            break
        # A little disorder, so that many runs do not knock in step.
        wait(max(seconds * random.uniform(0.8, 1.2), reply.wait))  # noqa: S311
        reply = sender(method, url, data, headers)
    return reply


def send(method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> Reply:
    """Send one request; every failure of the network is a reply with status 0.

    Redirects are not followed: a secret must not travel to another host.

    Raises:
        UsageError: the address or a header cannot be sent; neither is quoted, either may be secret.
    """
    try:
        request = urllib.request.Request(  # noqa: S310 (the scheme was checked)
            url,
            data=data,
            method=method,
            headers={"Content-Type": "application/json", "User-Agent": "shardward", **headers},
        )
        with _opener().open(request, timeout=TIMEOUT) as answer:
            return _reply(answer.status, answer.read(MOST_BYTES), answer.headers["Retry-After"])
    except OSError as error:
        return _no_answer(error)
    except (ValueError, http.client.InvalidURL):
        # From nothing: the words of the library hold the header or the address.
        raise UsageError(
            "an address or a header of the message holds characters that HTTP cannot carry; "
            "check the outlet's variables in the environment"
        ) from None
    except http.client.HTTPException as error:
        return _no_answer(error)


def _no_answer(error: Exception) -> Reply:
    reason = getattr(error, "reason", None) or error
    return Reply(status=0, body=b"", words=f"no answer ({type(error).__name__}: {reason})")


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


class _AsItIs(urllib.request.HTTPErrorProcessor):
    """Returns every answer, so that no redirect is followed and no status is an exception."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


class _Patience(io.RawIOBase):
    """Reads a socket until a deadline: its own time limit starts again with each byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._raw = connection, connection.makefile("rb", buffering=0)
        self._deadline = time.monotonic() + TIMEOUT

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the answer was not complete after {TIMEOUT:g} s")
        self._connection.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *words: Any, **more: Any) -> None:
        super().__init__(sock, *words, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_Patience(sock))


class _Plain(http.client.HTTPConnection):
    response_class = _Answer


class _Secure(http.client.HTTPSConnection):
    response_class = _Answer


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Secure, req)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_AsItIs, _PlainHandler, _SecureHandler)


def _reply(status: int, body: bytes, retry_after: str | None) -> Reply:
    wait = _seconds(retry_after or "")
    asked = f", asks to wait {wait:.0f} s" if wait else ""
    return Reply(status=status, body=body, words=f"status {status}{asked}", wait=wait)


def _seconds(retry_after: str) -> float:
    """Return the seconds that a Retry-After means, a number or a date; 0 where it means nothing."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), MOST_WAIT)
    try:
        until = parsedate_to_datetime(text)
        # A date without a zone is one of UTC, as all dates of HTTP are.
        left = until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, left.total_seconds())
