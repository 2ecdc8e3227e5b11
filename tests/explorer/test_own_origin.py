"""Requests and sockets of another origin are refused, and every answer has the rules for the browser."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

from rasf_explorer.own_origin import HEADERS, OwnOriginMiddleware, is_own


def test_an_origin_is_compared_with_the_host_that_is_asked():
    for origin, host, own in [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("https://Rasf.Example", "rasf.example", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("http://localhost:8080", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8081", "127.0.0.1:8080", False),
        ("http://evil.example", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080.evil.example", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080@evil.example", "127.0.0.1:8080", False),
        ("null", "127.0.0.1:8080", False),
        ("null", "", False),
        ("", "", False),
        ("http://", "", False),
        ("http://[", "[", False),
        ("file://127.0.0.1:8080", "127.0.0.1:8080", False),
    ]:
        assert is_own(origin, host) is own, (origin, host)


def asked(kind, *headers):
    """What the middleware answers to a request, around an application that accepts all of them."""
    sent = []

    async def application(scope, receive, send):
        if kind == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        else:
            await send({"type": "websocket.accept"})

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "method": "GET", "path": "/", "headers": list(headers), "extensions": {}}
    # in a thread of its own: the browser's tests leave a loop running in this one
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, OwnOriginMiddleware(application)(scope, None, send)).result()
    return sent[0]


def test_other_origins_are_refused_and_answers_have_the_headers():
    host = (b"host", b"127.0.0.1:8080")
    for origin in ([], [(b"origin", b"http://127.0.0.1:8080")]):
        assert asked("websocket", host, *origin) == {"type": "websocket.accept"}
        answer = asked("http", host, *origin)
        assert answer["status"] == 200
        assert {name.lower().encode(): text.encode() for name, text in HEADERS.items()}.items() <= dict(
            answer["headers"]
        ).items()
    for origin in (b"http://evil.example", b"null"):
        answer = asked("http", host, (b"origin", origin))
        assert (answer["type"], answer["status"]) == ("http.response.start", 403)
        assert asked("websocket", host, (b"origin", origin)) == {"type": "websocket.close", "code": 1008}
