"""Where numbers come from."""

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commit() -> str:
    """The commit the numbers were made with; `-dirty` where the source has changed since."""
    number = _git("rev-parse", "--short", "HEAD")
    return f"{number}-dirty" if _git("status", "--porcelain", "--untracked-files=no", "--", "src") else number


def machine() -> dict[str, object]:
    """What the numbers were made on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {"commit": commit(), "cores": os.cpu_count(), "memory_gb": memory, "python": platform.python_version()}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT).stdout.strip()
