"""The proxy and the unit of docs/serving.md: run by nginx and checked by systemd, where they are installed."""

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from service.server import Server, serving

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
NAME = "news.example"


def block(language: str) -> str:
    """The only block of a language on the page."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(text)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def proxy(folder: Path, server: Server) -> Iterator[int]:
    """Run nginx with the settings of the page; gives the port that it listens at."""
    port = free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}",
         "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", folder / "news.key", "-out", folder / "news.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    settings = block("nginx")
    for old, new in (
        ("127.0.0.1:8000", f"{server.host}:{server.port}"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/ssl/", f"{folder}/"),
    ):
        assert old in settings
        settings = settings.replace(old, new)
    paths = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{paths}\n{settings}}}\n",
        encoding="utf-8",
    )
    process = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"])
    try:
        for _ in range(100):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (folder / "error.log").read_text()
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def call(folder: Path, port: int, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any, Any]:
    """Send a request over TLS to the name of the site; gives status, document and headers of the answer."""
    context = ssl.create_default_context(cafile=str(folder / "news.pem"))

    class Connection(http.client.HTTPSConnection):
        def connect(self) -> None:
            plain = socket.create_connection(("127.0.0.1", port), 30)
            self.sock = context.wrap_socket(plain, server_hostname=NAME)

    connection = Connection(NAME, timeout=30, context=context)
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
    return answer.status, json.loads(content) if is_json else content.decode(), answer.headers


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_service_behind_nginx(run_path: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("k" * 40, encoding="utf-8")
    key = {"Authorization": "Bearer " + "k" * 40}
    options = ("--allow-host", NAME, "--key-file", key_file)
    with serving(run_path, tmp_path / "store.db", *options) as server, proxy(tmp_path, server) as port:
        assert call(tmp_path, port, "GET", "/readyz")[0] == 200
        assert call(tmp_path, port, "POST", "/v1/rank", {"user_id": "anna"})[0] == 401
        status, answer, _ = call(tmp_path, port, "POST", "/v1/rank", {"user_id": "anna", "count": 3}, **key)
        assert (status, len(answer["stories"])) == (200, 3)
        shown = [{"news_id": story["news_id"]} for story in answer["stories"]]
        report = {"impression_id": answer["impression_id"], "user_id": "anna", "shown": shown}
        assert call(tmp_path, port, "POST", "/v1/impressions", report, **key)[0] in (200, 201)
        assert call(tmp_path, port, "GET", "/metrics", **key)[0] == 403  # the proxy keeps it inside
        assert call(tmp_path, port, "POST", "/v1/rank", {"user_id": "x" * 2_000_000}, **key)[0] == 413
        wrong = call(tmp_path, port, "POST", "/v1/rank", {"user_id": "anna"}, **key, Host="elsewhere.example")
        assert wrong[0] == 400
        _, page, headers = call(tmp_path, port, "GET", "/login")
        assert 'name="token"' in page
        assert "secure" in headers["Set-Cookie"].lower()  # never sent in the clear


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "drpn"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    unit = block("ini").replace("/opt/drpn/bin/drpn", str(program)).replace("User=drpn", "User=daemon")
    file = tmp_path / "drpn.service"
    file.write_text(unit, encoding="utf-8")
    checked = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    complaints = [line for line in checked.stderr.splitlines() if "drpn.service" in line]
    assert not complaints
    file.write_text(unit.replace("Restart=on-failure", "Restart=sometimes"), encoding="utf-8")
    broken = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    assert "sometimes" in broken.stderr
