"""The application and its commands, in the order of `drpn --help`."""

from collections.abc import Callable
from typing import Annotated

import typer

from drpn.cli.data import prepare, simulate, stats
from drpn.cli.demo import demo
from drpn.cli.experiments import compare, reproduce, tune
from drpn.cli.model import evaluate, explain, models, recommend, train
from drpn.cli.serve import keys, replay, serve
from drpn.version import VERSION

COMMANDS: dict[str, list[Callable[..., None]]] = {
    "First steps": [demo],
    "Data": [simulate, prepare, stats],
    "One model": [models, train, evaluate, recommend, explain],
    "Many models": [tune, compare, reproduce],
    "A running service": [serve, keys, replay],
}

app = typer.Typer(
    name="drpn",
    help="Recommend news with models that learn from the stories readers clicked and from the stories they skipped.",
    epilog="New here? Run `drpn demo`. Run `drpn COMMAND --help` for the options and an example of each command.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _group, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(rich_help_panel=_group)(_command)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"drpn {VERSION}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version
