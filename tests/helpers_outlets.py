"""A real HTTP server on the loopback that plays the receivers of messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shardward.quarantine.respond.outlets import Message

Answer = tuple[int, object] | Callable[[BaseHTTPRequestHandler], None]


class Receiver:
    """Keeps what it was sent and answers as told, the last answer for ever."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, Any], dict[str, str]]] = []
        self.answers: list[Answer] = [(200, {})]
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size) or b"{}")
                receiver.requests.append((self.command, self.path, body, dict(self.headers)))
                answers = receiver.answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if callable(answer):
                    answer(self)
                    return
                status, content = answer
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if 300 <= status < 400:
                    self.send_header("Location", receiver.url + "/stolen")
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET = do_PATCH = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body, _ in self.requests]


def secrets(receiver: Receiver) -> dict[str, str]:
    """Return an environment whose outlets all lead to `receiver`."""
    return {
        "SHARDWARD_WEBHOOK_URL": receiver.url + "/hook?token=s3cret",
        "SHARDWARD_PAGERDUTY_KEY": "s3cret",
        "SHARDWARD_PAGERDUTY_URL": receiver.url + "/v2/enqueue",
        "SHARDWARD_SLACK_URL": receiver.url + "/services/s3cret",
        "SHARDWARD_GITHUB_TOKEN": "s3cret",
        "SHARDWARD_GITHUB_URL": receiver.url,
    }


def message(action: str = "trigger", **facts: Any) -> Message:
    known = {"incident": "INC-0001", "run": "r1", "summary": "A spike <!channel> & more"}
    return Message(
        key="shardward-r1-INC-0001",
        action=action,
        title="INC-0001",
        severity="critical",
        facts={**known, **facts},
    )


def quiet(_: float) -> None:
    """Do not wait in tests."""
