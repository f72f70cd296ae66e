"""Commands for a running service: `serve`, `keys`, `replay`."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drpn import progress
from drpn.cli import printing
from drpn.cli.options import Json
from drpn.cli.text import say
from drpn.errors import SettingsError

if TYPE_CHECKING:
    from drpn.store.records import KeyRecord

Store = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Store of events: a file such as `sqlite:///store.db`, created if missing, or a database, "
        "`postgresql://USER@HOST/DATABASE`.",
    ),
]


_PATIENT = 2.0
"""Seconds that a ranking of a replay may take: the machine may be slow, and a fallback would show little."""


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder written by `drpn train`, or a bundle.")],
    store: Store = "sqlite:///store.db",
    host: Annotated[str, typer.Option(help="Address to listen at; any but loopback needs a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 chooses a free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name under which clients reach the service. Can be repeated."),
    ] = None,
    bundles: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of bundles and runs that `POST /v1/reload` may load by name."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RUN@SHARE",
            help="Another run that ranks for a share of the users, such as `B=run2@0.1`. Can be repeated.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with a key that may do everything; `DRPN_KEY` works too."),
    ] = None,
    skip_discount: Annotated[
        float,
        typer.Option(
            min=0,
            help="How far a story goes down for each time that a reader was shown and skipped it, in standard "
            "deviations of the scores of the list; it fades, by half in a day. Only for models that read no counts, "
            "see docs/serving.md. 0 turns it off.",
        ),
    ] = 1.5,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes that answer, at one address and on one store.")
    ] = 1,
) -> None:
    """Serve rankings over HTTP, and learn from feedback at once.

    Listens at this machine alone, unless a key protects the service. Events are durable when they are acknowledged.
    An empty store starts with the profiles of the bundle. Ctrl-C finishes the running requests and stops.

    Writes the store. Prints one line for each request to standard error, without anything that a client sent. The
    address plus `/docs` documents every route.

    Example: `drpn serve run --store sqlite:///store.db --port 8000`
    """
    _require_extra()
    from drpn.service.running import Address
    from drpn.service.running import serve as run_service
    from drpn.service.settings import NewsroomSettings
    from drpn.service.variants import Variant

    others = [_variant(text) for text in variant or ()]
    first = 1 - sum(share for _, _, share in others)
    if first <= 0:
        raise SettingsError("the shares of the other variants leave no user for the first run; lower them")
    variants = [Variant(name, _bundle(path), share) for name, path, share in [("A", run, first), *others]]
    run_service(
        variants,
        store,
        Address(host=host, port=port, allow_hosts=tuple(allow_host or ())),
        bundles=bundles,
        key_file=key_file,
        settings=NewsroomSettings(skip_discount=skip_discount),
        workers=workers,
        progress=progress.for_terminal(),
    )


def keys(
    action: Annotated[
        Literal["add", "list", "revoke"], typer.Argument(metavar="ACTION", help="`add`, `list` or `revoke`.")
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new key, or the id of the key to revoke.")
    ] = "",
    store: Store = "sqlite:///store.db",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="What a new key may do: `events` (report feedback and news), `rank`, `profiles` (read users), `admin` "
            "(erase users, load bundles). Can be repeated; by default `events` and `rank`.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Add, list and revoke the keys of a service.

    A new key is printed once; the store keeps only a hash of it. A running service knows it within seconds. As soon as
    a store has a key, every request needs one.

    Example: `drpn keys add website --scope events --scope rank`
    """
    from drpn.store.keys import create_key, revoke_key
    from drpn.store.opening import open_store, server_time

    if (action == "list") == bool(name):
        raise SettingsError("list takes no name" if name else f"{action} needs a name: the key's", hint="see --help")
    with closing(open_store(store)) as opened:
        if action == "add":
            key, record = create_key(opened, name, scope or ("events", "rank"), server_time())
            if json:
                printing.as_json({"id": record.key_id, "name": name, "scopes": sorted(record.scopes), "key": key})
            else:
                say(f"key {record.key_id} for {name}, shown only now:")
                print(key)
        elif action == "revoke":
            revoke_key(opened, name, server_time())
            say(f"key {name} is revoked")
        else:
            _list_keys(opened.api_keys(), json=json)


def replay(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder of a model that was trained on LOGS, or its bundle.")
    ],
    logs: Annotated[
        Path, typer.Argument(metavar="LOGS", help="Logs that `drpn simulate --preset live` or `drpn demo` wrote.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 chooses a free one.")] = 8000,
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes that the simulated day takes.")] = 10.0,
) -> None:
    """Serve a simulated site on its next day, with readers who visit it, to see rankings change.

    The readers of the simulated logs come back. Each asks the service for a ranking over HTTP and clicks what interests
    them of the list they get; page views and clicks are reported, and the next ranking knows them. New stories are put
    when they are published. The clock of the service starts at the end of the logs and runs fast.

    Open the address that is printed, choose a reader and load the page again after some seconds: the front page has
    changed, and the profile grows while the reader visits. The figures count requests and clicks. Under a story, Skip
    shows what a skip would change.

    Keeps its store in a temporary folder: nothing is left after Ctrl-C. `drpn serve` serves real readers.

    Example: `drpn replay demo/live/drpn-live demo/live/logs --minutes 10`
    """
    _require_extra()
    from drpn.logs.simulate.next_day import NextDay
    from drpn.recipes.replay import Replay
    from drpn.service.running import Address
    from drpn.service.running import serve as run_service
    from drpn.service.settings import NewsroomSettings
    from drpn.service.variants import Variant

    shown = progress.for_terminal()
    with shown.stage("Make the next day of the simulated site"):
        day = NextDay(logs)
    readers = Replay(day, 60 * minutes, shown)

    def started(address: str) -> None:
        shown.note(
            f"{day.start:%A %d %B %Y} takes {minutes:g} minutes: {len(day.visits):,} visits, "
            f"{len(day.stories):,} new stories"
        )
        shown.note(f"open {address}/?user={readers.frequent_reader} and load the page again after some seconds")
        readers.begin(address)

    with TemporaryDirectory(prefix="drpn-replay-") as folder:
        try:
            run_service(
                [Variant("A", _bundle(run), 1.0)],
                f"sqlite:///{folder}/store.db",
                Address(port=port),
                settings=NewsroomSettings(seconds=_PATIENT),
                clock=readers.clock,
                started=started,
                log_requests=False,
                progress=shown,
            )
        finally:
            done = readers.end()
    shown.note(f"{done.views:,} page views with {done.clicks:,} clicks; {done.failed:,} requests failed")


def _list_keys(records: "list[KeyRecord]", *, json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": record.key_id,
            "name": record.name,
            "scopes": sorted(record.scopes),
            "created": record.created.isoformat(timespec="seconds"),
            "revoked": record.revoked and record.revoked.isoformat(timespec="seconds"),
        }
        for record in records
    ]
    if json:
        printing.as_json({"rows": rows})
        return
    for row in rows:
        state = f"revoked {row['revoked']}" if row["revoked"] else "in use"
        say(f"{row['id']}  {row['name']}  {' '.join(row['scopes'])}  {row['created']}  {state}")


def _bundle(path: Path) -> Path:
    """The bundle of a run, or the bundle itself."""
    from drpn.bundle.files import MANIFEST
    from drpn.recipes.runs import BUNDLE, Run

    if (path / MANIFEST).is_file():
        return path
    run = Run.open(path)
    run.bundle()  # fails with a reason if it cannot be served
    return run.path / BUNDLE


def _variant(text: str) -> tuple[str, Path, float]:
    """Name, run and share of `NAME=RUN@SHARE`."""
    name, equals, rest = text.partition("=")
    path, at, share = rest.rpartition("@")
    try:
        number = float(share)
    except ValueError:
        number = 0.0
    if not (equals and at and name and path and 0 < number < 1):
        raise SettingsError(f"the variant '{text}' is not understood; write NAME=RUN@SHARE, such as B=run2@0.1")
    return name, Path(path), number


def _require_extra() -> None:
    """Refuse with a remedy if the packages of the service are not installed."""
    from importlib.util import find_spec

    missing = [
        name for name in ("fastapi", "jinja2", "prometheus_client", "pydantic", "uvicorn") if not find_spec(name)
    ]
    if missing:
        raise SettingsError(
            f"serving needs packages that are not installed: {', '.join(missing)}; install drpn with its serve extra",
            hint="run: pip install 'drpn[serve]'",
        )
