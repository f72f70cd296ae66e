"""The commit, machine and package versions that produced a result."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_SOURCE = Path(__file__).parent
_PACKAGES = ("numpy", "torch", "triton", "duckdb", "ibis-framework")


def commit() -> str:
    """Return the commit of this source, with `-dirty` if tracked files have changed since.

    The environment variable DRPN_COMMIT overrides it, for a copy of the source without its repository.
    """
    if override := os.environ.get("DRPN_COMMIT"):
        return override
    head = _git("rev-parse", "--short", "HEAD")
    if not head or not _git("ls-files", "--", "__init__.py"):  # no repository, or that of another project
        return "not known"
    return f"{head}-dirty" if _git("status", "--porcelain", "--untracked-files=no", "--", ".") else head


def machine() -> dict[str, object]:
    """Return the commit, the hardware and the package versions, for JSON."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {
        "commit": commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": memory,
        **_gpu(),
        "python": platform.python_version(),
        **{name: number for name in _PACKAGES if (number := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _gpu() -> dict[str, str]:
    torch = sys.modules.get("torch")  # a job that does not use torch should not load it
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
