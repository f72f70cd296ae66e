"""One worker: a process that answers requests at a socket that it shares with the others.

The supervisor starts it as `python -m drpn.service.workers.worker SOCKET CHANNEL`, with the numbers of two inherited
sockets, and sends it everything else, so that no key and no password is in the list of processes.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, contextmanager, suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from drpn.errors import DrpnError, StoreError
from drpn.progress import Silent
from drpn.service.app import create_app
from drpn.service.http.settings import HttpSettings
from drpn.service.newsroom import Newsroom, OpenedBundle
from drpn.service.running import run_app, signing_key
from drpn.service.settings import NewsroomSettings
from drpn.service.variants import Variant
from drpn.service.workers.channel import Channel, Message, as_error, as_facts
from drpn.service.workers.figures import SharedFigures
from drpn.store.opening import open_store

_FOLLOW_SECONDS = 1.0


def main(listening: int, control: int) -> int:
    """Load, wait for the supervisor to agree, and answer until SIGTERM; returns the exit code."""
    channel = Channel(Connection(control))
    job = channel.receive()
    if job is None:
        return 1
    try:
        with closing(socket.socket(fileno=listening)) as bound, closing(open_store(job["store"])) as store:
            newsroom = Newsroom(
                [Variant(name, Path(bundle), share) for name, bundle, share in job["variants"]],
                store,
                NewsroomSettings(**job["newsroom"]),
                key=signing_key(store, job["store"]),
                shared=Path(job["tables"]),
            )
            with closing(newsroom):
                channel.send("loaded")
                if channel.receive() is None:
                    return 1
                figures, member = SharedFigures(newsroom, store), Member(channel, newsroom)
                newsroom.watch(figures.publish)
                app = create_app(
                    newsroom,
                    store,
                    http_settings(job["http"]),
                    reload_all=member.reload_all,
                    metrics_folder=Path(job["metrics"]),
                )
                with following(newsroom, figures):
                    member.listen()
                    run_app(
                        app,
                        bound,
                        Silent(),
                        started=lambda _: channel.send("serving"),
                        log_requests=job["log_requests"],
                    )
    except DrpnError as error:
        channel.send("failed", **as_facts(error))
        return 1
    return 0


def http_settings(facts: Message) -> HttpSettings:
    """The settings that the supervisor sent."""
    bundles = facts["bundles"]
    return HttpSettings(
        allowed_hosts=tuple(facts["allowed_hosts"]),
        keys=tuple(facts["keys"]),
        keys_required=facts["keys_required"],
        bundles=None if bundles is None else Path(bundles),
        session_secret=bytes.fromhex(facts["session_secret"]),
    )


class Member:
    """A worker as one of several: does what the supervisor says, and asks it to load a bundle in all of them.

    Loading has two steps. All workers open the bundle; only if all of them can, they swap to it.
    """

    def __init__(self, channel: Channel, newsroom: Newsroom) -> None:
        self._channel, self._newsroom = channel, newsroom
        self._opened: OpenedBundle | None = None
        self._asked: dict[int, Future[None]] = {}
        self._numbers, self._gone = count(), False

    def listen(self) -> None:
        """Do what the supervisor says from now on."""
        threading.Thread(target=self._listen, name="drpn supervisor", daemon=True).start()

    def reload_all(self, path: Path, variant: str | None = None) -> None:
        """`Newsroom.reload` in every worker; blocks until all have swapped, or raises why none has."""
        number, future = next(self._numbers), Future[None]()
        self._asked[number] = future
        if self._gone:
            self._fail(future)
        self._channel.send("reload", number=number, path=str(path.resolve()), variant=variant)
        future.result()

    def _listen(self) -> None:
        while (message := self._channel.receive()) is not None:
            if message["kind"] == "answer":
                self._answer(message)
            else:
                self._obey(message)
        self._gone = True
        for future in list(self._asked.values()):
            self._fail(future)
        os.kill(os.getpid(), signal.SIGTERM)  # without a supervisor nobody would stop it

    def _answer(self, message: Message) -> None:
        future = self._asked.pop(message["number"])
        if message["error"] is None:
            future.set_result(None)
        else:
            future.set_exception(as_error(message["error"]))

    def _obey(self, message: Message) -> None:
        kind, error = message["kind"], None
        try:
            if kind == "open":
                self._opened = self._newsroom.open_bundle(Path(message["path"]), message["variant"])
            elif kind == "swap" and self._opened is not None:
                self._newsroom.swap(self._opened)
        except Exception as failure:  # the supervisor must hear of any fault, or it would wait
            error = as_facts(failure)
            if kind == "swap":  # the others have the new bundle: a new worker will have it, too
                os.kill(os.getpid(), signal.SIGTERM)
        if kind != "open" or error is not None:
            self._opened = None
        self._channel.send("done", step=kind, error=error)

    @staticmethod
    def _fail(future: "Future[None]") -> None:
        with suppress(InvalidStateError):
            future.set_exception(StoreError("the service stops; try again"))


@contextmanager
def following(newsroom: Newsroom, figures: SharedFigures) -> Iterator[None]:
    """Follow the log and publish figures every second, so that a worker without requests is up to date, too."""
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(_FOLLOW_SECONDS):
            with suppress(DrpnError):  # such as a store that is busy; the next turn tries again
                newsroom.catch_up()
            figures.publish()

    thread = threading.Thread(target=follow, name="drpn following", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
