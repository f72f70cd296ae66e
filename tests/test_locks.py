"""The pinned versions are within the ranges of pyproject.toml, and only `make test-real` installs Spark."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def pins(file: str) -> dict[str, str]:
    """The version of each package."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def ranges(extra: str | None = None) -> list[Requirement]:
    """The dependencies, or those of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        Requirement(text) for text in (project["optional-dependencies"][extra] if extra else project["dependencies"])
    ]


def test_pinned_versions_are_within_the_ranges() -> None:
    for file, wanted in (
        ("requirements.lock", [*ranges(), *ranges("serve"), *ranges("postgres")]),
        ("requirements-spark.lock", ranges("spark")),
    ):
        pinned = pins(file)
        for requirement in wanted:
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_spark_is_pinned_in_a_file_of_its_own() -> None:
    assert pins("requirements-spark.lock").keys() == {"pyspark", "py4j"}
    assert not pins("requirements-spark.lock").keys() & pins("requirements.lock").keys()
