"""`drpn replay`: a simulated site on its next day. Rankings change, figures move, Ctrl-C ends it."""

import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.demo import SITE
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import entry
from drpn.recipes.train import train
from drpn.training.settings import TrainingSettings
from service.server import Server
from terminal import start_command

MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small live site with a trained model."""
    folder = tmp_path_factory.mktemp("site")
    simulate(folder / "logs", SimulationSettings(users=300, news=500, days=5, seed=3, preset="live"))
    prepare(folder / "logs", folder / "dataset", DataSettings(vector_size=8, protocol="live"))
    settings = replace(entry("drpn-live").settings, size=8, hidden=8, heads=2, context_size=16)
    training = TrainingSettings(epochs=1, device="cpu")
    train(folder / "dataset", folder / "run", model="drpn-live", settings=settings, training=training)
    return folder


def number(page: str, name: str) -> int:
    """A number of the figures."""
    match = re.search(rf"<dt>{name}</dt><dd>([\d,]+)</dd>", page)
    assert match is not None
    return int(match[1].replace(",", ""))


def front(page: str) -> list[str]:
    return re.findall(r'<bdi class="id">(.*?)</bdi>', page)


@pytest.mark.real
def test_a_day_on_the_page(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = Server(start_command("replay", site / "run", site / "logs", "--port", 0, "--minutes", 1))
    try:
        deadline = time.monotonic() + 60
        while not any("/?user=" in line for line in server.lines) and time.monotonic() < deadline:
            time.sleep(0.1)
        pages, figures = list[str](), list[str]()
        while time.monotonic() < deadline and not (
            len({tuple(front(page)) for page in pages}) >= 3 and number(figures[-1], "Rankings") > 20
        ):
            line = next(line for line in server.lines if "/?user=" in line)
            user = re.findall(r"/\?user=(U\d+)", line)[0]
            status, page = server.call("GET", f"/?user={user}")
            assert status == 200
            pages.append(page)
            figures.append(server.call("GET", "/figures")[1])
            time.sleep(2)
        assert len({tuple(front(page)) for page in pages}) >= 3, "the front page of a reader changes within a minute"
        assert [len(front(page)) for page in pages] == [10] * len(pages)
        first, last = figures[0], figures[-1]
        assert number(last, "Rankings") > 20 > number(first, "Rankings")
        assert number(last, "Failed") == 0
        assert "bundle <bdi>run</bdi>" in last, "click rates of served rankings"
        assert any(tmp_path.iterdir()), "the store is in the temporary folder"
        assert any("takes 1 minutes" in line and "visits" in line for line in server.lines)
    finally:
        code = server.stop(signal.SIGINT) if server.process.poll() is None else None
    assert code == 0, "".join(server.lines)
    assert not any(tmp_path.glob("drpn-replay-*")), "nothing is left"
    assert re.search(r"[1-9]\d* page views with \d+ clicks; 0 requests failed", server.lines[-1])
    assert not any("Traceback" in line for line in server.lines)


def test_logs_that_cannot_be_replayed(site: Path, tmp_path: Path) -> None:
    process = start_command("replay", site / "run", tmp_path)
    assert process.stderr is not None
    message = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 2
    assert "simulation.json cannot be read" in message
    assert "drpn simulate LOGS --preset live" in message


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_serve_without_a_demo_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "-f", MAKEFILE, "-o", "install", "serve"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "There is no demo to serve yet. Run: make demo" in done.stdout


def test_make_serve_names_what_make_demo_writes() -> None:
    text = MAKEFILE.read_text()
    assert f"drpn replay demo/{SITE.folder}/drpn-live demo/{SITE.folder}/logs" in text
    assert f"demo/{SITE.folder}/drpn-live/bundle/manifest.json" in text
    assert "drpn-live" in SITE.models
    assert "Run: make demo" in text
