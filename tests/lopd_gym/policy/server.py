"""A small OpenAI-style chat server on this machine, which answers as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


@dataclass
class ChatServer:
    """Where the server listens, what it answers, and what it was asked."""

    url: str
    answer: Callable[[dict[str, Any]], Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def completion(
    text: str | None = None,
    *calls: tuple[str, Any],
    finish: str = "stop",
    total: int = 20,
    **more: Any,
) -> Answer:
    """An answer with text or tool calls; arguments that are no text are written as JSON."""
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"id-{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": values if isinstance(values, str) else json.dumps(values),
                },
            }
            for number, (name, values) in enumerate(calls)
        ]
    usage = {"total_tokens": total, "completion_tokens": 5}
    body = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    return 200, {}, json.dumps(body).encode()


def error(status: int, message: str = "", **headers: str) -> Answer:
    """An error as endpoints send it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, json.dumps({"error": {"message": message}}).encode()


def in_turn(*answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """Give the answers one after the other, and the last one from then on."""
    waiting, lock = list(answers), threading.Lock()

    def answer(request: dict[str, Any]) -> Answer:
        with lock:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return answer


@contextmanager
def chat_server(answer: Callable[[dict[str, Any]], Answer]) -> Iterator[ChatServer]:
    """Run a server while the context is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            request = json.loads(self.rfile.read(length))
            server.requests.append({"path": self.path, **request})
            server.keys.append(self.headers.get("Authorization"))
            status, headers, body = server.answer(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    with Listener(("127.0.0.1", 0), Handler) as listener:
        server = ChatServer(f"http://127.0.0.1:{listener.server_port}/v1", answer)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()
