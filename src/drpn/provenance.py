"""Where numbers come from: the commit, the machine, the versions."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_SOURCE = Path(__file__).parent
_PACKAGES = ("numpy", "torch", "triton", "duckdb", "ibis-framework")


def commit() -> str:
    """The commit of this source; `-dirty` where it has changed since.

    The variable DRPN_COMMIT goes before it: for a copy of the source that is no checkout, or an old one.
    """
    if named := os.environ.get("DRPN_COMMIT"):
        return named
    number = _git("rev-parse", "--short", "HEAD")
    if not number or not _git("ls-files", "--", "__init__.py"):  # no checkout, or one of something else
        return "not known"
    return f"{number}-dirty" if _git("status", "--porcelain", "--untracked-files=no", "--", ".") else number


def machine() -> dict[str, object]:
    """What numbers are made on, and with which versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {
        "commit": commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": memory,
        **_gpu(),
        "python": platform.python_version(),
        **{name: found for name in _PACKAGES if (found := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _gpu() -> dict[str, str]:
    torch = sys.modules.get("torch")  # what does not compute with it need not load it
    if torch is None or not torch.cuda.is_available():
        return {}
    return {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=_SOURCE).stdout.strip()
    except OSError:
        return ""
