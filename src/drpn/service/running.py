"""Run the service: open the store and the bundles, listen, answer until a signal comes, close."""

import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import uvicorn
from starlette.types import ASGIApp

from drpn.errors import SettingsError
from drpn.progress import Progress
from drpn.service.app import create_app
from drpn.service.garbage import few_full_collections
from drpn.service.http.settings import HttpSettings
from drpn.service.newsroom import Newsroom
from drpn.service.settings import NewsroomSettings
from drpn.service.signing import load_key
from drpn.service.variants import Variant
from drpn.store.base import Store
from drpn.store.opening import open_store, server_time, without_password

KEY_VARIABLE = "DRPN_KEY"
"""Environment variable that may hold a key with every scope."""
_SHORTEST_KEY = 32
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the service listens, and under which names it is reached."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0 chooses a free port."""
    allow_hosts: tuple[str, ...] = ()
    """Names in addition to the host itself."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def names(self) -> tuple[str, ...]:
        """All names that the Host header may have."""
        own = _LOOPBACK if self.is_loopback else (self.host,)
        if not self.is_loopback and _is_wildcard(self.host):
            if not self.allow_hosts:
                raise SettingsError(
                    f"the host {self.host} stands for every address of this machine; say under which names the service "
                    "is reached",
                    hint="pass --allow-host NAME",
                )
            own = _LOOPBACK
        return tuple(name.lower() for name in (*own, self.host, *self.allow_hosts))

    def bind(self) -> socket.socket:
        """A socket at this address that does not listen yet; refuses one that is in use."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind, protocol)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.bind(address)
            except BaseException:
                bound.close()
                raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise SettingsError(
                f"the service cannot listen at {self.host}, port {self.port}: {reason}; choose another address",
                hint="pass --port, or --port 0 for any free one",
            ) from error
        return bound


def serve(
    variants: Sequence[Variant],
    store_url: str,
    address: Address,
    *,
    bundles: Path | None = None,
    key_file: Path | None = None,
    settings: NewsroomSettings | None = None,
    clock: Callable[[], datetime] = server_time,
    started: Callable[[str], None] | None = None,
    log_requests: bool = True,
    workers: int = 1,
    progress: Progress,
) -> None:
    """Serve until SIGINT or SIGTERM; then finish the running requests and close the store.

    `clock` is the time of the newsroom and its store; several `workers` have that of the machine. `started` is called
    with the address as soon as it answers.
    """
    keys = own_keys(key_file)
    names = address.names
    with closing(address.bind()) as bound, closing(open_store(store_url, clock=clock)) as store:
        check_keys(address, store, keys)
        http = HttpSettings(allowed_hosts=names, keys=keys, keys_required=not address.is_loopback, bundles=bundles)
        progress.note(f"store: {without_password(store_url)}, {store.last_sequence():,} events")
        if workers > 1:
            store.close()  # each worker opens it
            _serve_by_workers(variants, store_url, bound, http, settings, workers, started, log_requests, progress)
            return
        with progress.stage("Load the bundles, seed the store and replay its events"):
            newsroom = Newsroom(variants, store, settings, key=signing_key(store, store_url), clock=clock)
        with closing(newsroom):
            app = create_app(newsroom, store, http)
            run_app(app, bound, progress, started=started, log_requests=log_requests)
    progress.note("stopped; all acknowledged events are stored")


def _serve_by_workers(
    variants: Sequence[Variant],
    store_url: str,
    bound: socket.socket,
    http: HttpSettings,
    settings: NewsroomSettings | None,
    workers: int,
    started: Callable[[str], None] | None,
    log_requests: bool,
    progress: Progress,
) -> None:
    try:
        from drpn.service.workers.folder import shared_folder
        from drpn.service.workers.supervisor import Supervisor
    except ImportError as error:  # of fcntl
        raise SettingsError("several workers need Linux or another Unix; serve with one") from error
    job = {
        "variants": [[variant.name, str(variant.bundle.resolve()), variant.share] for variant in variants],
        "store": store_url,
        "newsroom": asdict(settings or NewsroomSettings()),
        "http": {
            "allowed_hosts": http.allowed_hosts,
            "keys": http.keys,
            "keys_required": http.keys_required,
            "bundles": None if http.bundles is None else str(http.bundles.resolve()),
        },
        "log_requests": log_requests,
    }

    def all_answer() -> None:
        url = url_of(bound)
        progress.note(f"serving at {url} with {workers} workers, documentation at /docs; Ctrl-C stops")
        if started is not None:
            started(url)

    with shared_folder() as folder:
        in_order = Supervisor(workers, bound, job, folder, progress).run(all_answer)
    if not in_order:
        raise KeyboardInterrupt
    progress.note("stopped; all acknowledged events are stored")


def url_of(bound: socket.socket) -> str:
    """The address of a socket as clients write it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def signing_key(store: Store, store_url: str) -> bytes:
    """The key that signs impression ids; it outlives restarts, as the ids do.

    It is in a file next to a store in a file. Processes on several machines derive it from the store that they share.
    """
    scheme, _, rest = store_url.partition("://")
    return load_key(Path(f"{unquote(rest[1:])}.key")) if scheme == "sqlite" else store.derived_key("impression ids")


def own_keys(key_file: Path | None) -> tuple[str, ...]:
    """The keys of a file, one for each line, and of the environment."""
    keys = [os.environ[KEY_VARIABLE]] if os.environ.get(KEY_VARIABLE) else []
    if key_file is not None:
        try:
            keys += key_file.read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the key file {key_file} cannot be read; write one key into it") from error
        if not keys:
            raise SettingsError(f"the key file {key_file} is empty; write one key into it")
    if any(len(key) < _SHORTEST_KEY for key in keys):
        raise SettingsError(
            f"a key is shorter than {_SHORTEST_KEY} letters and could be guessed; make a long random one",
            hint="or add one to the store: drpn keys add NAME",
        )
    return tuple(keys)


def check_keys(address: Address, store: Store, keys: Sequence[str]) -> None:
    """Refuse an address that other machines can reach if no key protects it."""
    if address.is_loopback or keys or any(record.revoked is None for record in store.api_keys()):
        return
    raise SettingsError(
        f"other machines can reach {address.host}, and no key protects the service; make a key first",
        hint=f"run: drpn keys add NAME, or pass --key-file, or set {KEY_VARIABLE}",
    )


def run_app(
    app: ASGIApp,
    bound: socket.socket,
    progress: Progress,
    *,
    started: Callable[[str], None] | None = None,
    log_requests: bool = True,
) -> None:
    """Answer requests until a signal comes."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=30,
        backlog=1024,
    )
    with _logging(logging.INFO if log_requests else logging.WARNING), _own_signals(), few_full_collections():
        _Server(config, progress, started).run(sockets=[bound])


class _Server(uvicorn.Server):
    """Reports its address when it answers."""

    def __init__(
        self, config: uvicorn.Config, progress: Progress, started_at: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(config)
        self._progress, self._started_at = progress, started_at

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            url = url_of(sockets[0])
            self._progress.note(f"serving at {url}, documentation at /docs; Ctrl-C stops")
            if self._started_at is not None:
                self._started_at(url)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ignore the signals that uvicorn repeats after it has stopped, so that the store is closed in order."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logging(requests: int) -> Iterator[None]:
    """Write log lines to standard error; those of requests from a level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    levels = {"drpn.service": requests, "uvicorn.error": logging.WARNING}
    for name, level in levels.items():
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name in levels:
            logging.getLogger(name).removeHandler(handler)


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
