"""The model card: a bundle described for human readers."""

from datetime import datetime
from typing import Any

from drpn.escape import markdown


def card(manifest: dict[str, Any]) -> str:
    """The model card of a bundle as Markdown."""
    statistics = manifest["data"]["statistics"]
    lines = [
        f"# {manifest['model']}",
        "",
        "Ranks news stories for a user by the stories that the user clicked and skipped. Trained with drpn.",
        "",
        "## Data",
        "",
        f"{statistics['users']:,} users, {statistics['news']:,} stories, "
        f"{statistics['impressions']['train']:,} impressions to train on, "
        f"{statistics['impressions']['test']:,} to test on. Source files:",
        "",
        *[f"- {markdown(source['name'])}, sha256 {source['sha256'][:16]}…" for source in manifest["data"]["sources"]],
        "",
        *_profiles(manifest["data"]),
        "A model trained on MIND or EB-NeRD falls under their research licences: it may not be used commercially.",
        "",
        "## Metrics",
        "",
        *[f"- {name}: {value}" for name, value in manifest.get("metrics", {}).items()],
        "",
        "## Settings",
        "",
        *[f"- {name} = {value}" for name, value in manifest["settings"].items()],
        "",
        f"drpn {manifest['drpn']}, commit {manifest.get('commit') or 'not known'}, seed "
        f"{manifest.get('training', {}).get('seed', 'not known')}. Trained: {_trained(manifest)}.",
    ]
    return "\n".join(lines) + "\n"


def trained(manifest: dict[str, Any]) -> datetime | None:
    """When the training ended, UTC; None in bundles of older versions."""
    text = manifest.get("trained")
    return None if text is None else datetime.fromisoformat(text)


def _trained(manifest: dict[str, Any]) -> str:
    moment = trained(manifest)
    return "not known" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def _profiles(data: dict[str, Any]) -> list[str]:
    """The moment of the profiles, as a paragraph; nothing in bundles of datasets that older versions prepared."""
    moment = data.get("profiles_as_of")
    return [f"Profiles are as of the end of the logs, {moment} UTC.", ""] if moment else []
