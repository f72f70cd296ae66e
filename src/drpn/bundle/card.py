"""The model card: what a bundle is, for people."""

from typing import Any


def card(manifest: dict[str, Any]) -> str:
    """The model card in Markdown."""
    statistics = manifest["data"]["statistics"]
    lines = [
        f"# {manifest['model']}",
        "",
        "A news recommender trained with drpn. It ranks news for a reader from the feedback that the reader gave.",
        "",
        "## Data",
        "",
        f"{statistics['users']:,} users, {statistics['news']:,} news, "
        f"{statistics['impressions']['train']:,} impressions to train on, "
        f"{statistics['impressions']['test']:,} to test on. Made from:",
        "",
        *[f"- `{source['name']}`, sha256 {source['sha256'][:16]}…" for source in manifest["data"]["sources"]],
        "",
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
        f"{manifest.get('training', {}).get('seed', 'not known')}.",
    ]
    return "\n".join(lines) + "\n"
