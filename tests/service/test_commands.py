"""The options of `drpn serve` and `drpn keys`, and the commands of docs/serving.md."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from drpn.store.keys import find_key
from drpn.store.opening import open_store
from service.server import serving

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


def test_keys_are_added_listed_and_revoked(drpn, tmp_path: Path) -> None:
    added = drpn("keys", "add", "website", "--scope", "rank", "--scope", "events", "--json")
    made = json.loads(added.stdout)
    assert (made["name"], made["scopes"]) == ("website", ["events", "rank"])
    plain = drpn("keys", "add", "prometheus")
    second = plain.stdout.splitlines()[1]
    store = open_store("sqlite:///store.db")
    assert find_key(store.api_keys(), made["key"]).key_id == made["id"]
    assert find_key(store.api_keys(), second).scopes == {"events", "rank"}
    listed = drpn("keys", "list")
    assert listed.stdout.count("in use") == 2
    assert made["id"] in listed.stdout
    assert made["key"] not in listed.stdout + (tmp_path / "store.db").read_bytes().decode("latin-1")
    assert drpn("keys", "revoke", made["id"]).stdout == f"key {made['id']} is revoked\n"
    assert find_key(store.api_keys(), made["key"]) is None
    rows = json.loads(drpn("keys", "list", "--json").stdout)["rows"]
    assert [bool(row["revoked"]) for row in rows] == [True, False]
    store.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add"], "add needs a name"),
        (["revoke"], "revoke needs a name"),
        (["list", "x"], "list takes no name"),
        (["add", "x", "--scope", "all"], "'all' is no scope; choose from events, rank, profiles, admin"),
        (["revoke", "nothing"], "there is no key 'nothing' in use"),
        (["list", "--store", "mysql://x"], "the store 'mysql://x' is not supported"),
    ],
)
def test_keys_commands_that_cannot_be_done(drpn, arguments: list[str], message: str) -> None:
    done = drpn("keys", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing is not a run"),
        (["RUN", "--host", "0.0.0.0"], "say under which names the service is reached; pass --allow-host NAME"),
        (["RUN", "--host", "0.0.0.0", "--allow-host", "x", "--port", "0"], "no key protects the service; make a key"),
        (["RUN", "--host", "no.such.host.invalid", "--port", "0"], "cannot listen at no.such.host.invalid"),
        (["RUN", "--variant", "B=run2"], "the variant 'B=run2' is not understood; write NAME=RUN@SHARE"),
        (["RUN", "--variant", "B=RUN@nan"], "is not understood"),
        (["RUN", "--variant", "B=RUN@0.6", "--variant", "C=RUN@0.6"], "leave no user for the first run"),
        (["RUN", "--key-file", "missing"], "the key file missing cannot be read"),
        (["RUN", "--store", "sqlite:///"], "names no file"),
    ],
)
def test_a_service_that_cannot_start(drpn, run_path: Path, arguments: list[str], message: str) -> None:
    done = drpn("serve", *[argument.replace("RUN", str(run_path)) for argument in arguments])
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("drpn: ")


def test_a_broken_bundle_is_not_served(drpn, run_path: Path, tmp_path: Path) -> None:
    shutil.copytree(run_path, tmp_path / "run")
    weights = tmp_path / "run" / "bundle" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    done = drpn("serve", "run", "--port", 0)
    assert done.returncode == 2
    assert "model.safetensors" in done.stderr


def test_a_missing_extra_is_named(drpn, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else installed(name))
    done = drpn("serve", "run")
    assert done.returncode == 2
    assert "not installed: uvicorn" in done.stderr
    assert "pip install 'drpn[serve]'" in done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_commands_of_the_page(run_path: Path, tmp_path: Path) -> None:
    first, more = (
        re.findall(r"^curl .*?[^\\]$", block, re.DOTALL | re.MULTILINE)
        for name in ("five commands", "more calls")
        for block in re.findall(f"<!-- {name}: begin -->(.*?)<!-- {name}: end -->", PAGE, re.DOTALL)
    )
    assert (len(first), len(more)) == (3, 8)
    with serving(run_path, tmp_path / "store.db") as server:
        for command in (*first, *more):
            line = command.replace("http://127.0.0.1:8000", server.url)
            done = subprocess.run(["sh", "-c", f"{line} --silent --fail-with-body"], capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stdout}"


def test_the_page_lists_every_status() -> None:
    from drpn.service.http.endpoints import MEANINGS

    listed = {int(number) for line in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE) for number in line.split(",")}
    assert listed == {int(status) for status in MEANINGS} | {405}


def test_the_page_lists_every_scope() -> None:
    from drpn.store.keys import SCOPES

    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(SCOPES)
