"""A PostgreSQL server of the tests, in a temporary folder: Debian's `postgresql`, or the one on the PATH."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from waiting import wait_until

SUPERUSER, PASSWORD = "drpn", "s3cret/word"


class PostgresServer:
    """A server that can be killed and started again; every database is new."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries, self.folder, self._numbers = binaries, folder, count()
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:  # the server refuses to run as root
            account = pwd.getpwnam("postgres")
            os.chown(folder, account.pw_uid, account.pw_gid)
            self._user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            "initdb", "--pgdata", folder / "data", "--username", SUPERUSER, "--pwfile", password, "--encoding", "UTF8",
            "--locale", "C", "--auth-local", "trust", "--auth-host", "scram-sha-256", "--no-sync",
        )  # fmt: skip

    def start(self, **settings: str) -> None:
        """Start the server and wait until it answers; `settings` are those of postgresql.conf."""
        chosen = {
            "fsync": "on",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
        } | settings
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.folder / "data", "-p", str(self.port), *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        wait_until(self._answers, pause=0.05)

    def kill(self) -> None:
        """Kill the server and all its processes at once, as a machine that loses its power does."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._process.kill()
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    def stop(self) -> None:
        """End the server without waiting for its clients, and without what only makes the next start quicker."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{next(self._numbers)}"
        self._run("createdb", "-h", self.folder, "-p", self.port, "-U", SUPERUSER, name)
        return f"postgresql://{SUPERUSER}@/{name}?host={self.folder}&port={self.port}"

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        return not self._run("pg_isready", "-h", self.folder, "-p", self.port, check=False).returncode

    def _run(self, program: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [self._binaries / program, *map(str, arguments)],
            capture_output=True,
            cwd=self.folder,
            check=False,
            **self._user,
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running server; skips the test where there is none to start."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg_pool", reason="psycopg is not installed (pip install 'drpn[postgres]')")
    # not in pytest's folder, which only its owner can enter
    folder = Path(tempfile.mkdtemp(prefix="drpn-postgres-"))
    try:
        server = PostgresServer(binaries, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _binaries() -> Path | None:
    """The folder with the programs of the newest version."""
    initdb = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    return Path(initdb).resolve().parent if initdb else folders[-1] if folders else None
