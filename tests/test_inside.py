"""Names in manifests stay inside the folder of the manifest."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.bundle.files import Bundle
from drpn.dataset.arrays import sha256
from drpn.dataset.folder import Dataset
from drpn.errors import DrpnError, FolderError, RunError
from drpn.inside import file_inside
from drpn.versioned import write_versioned
from small_training import train_small

OUTSIDE = [
    "news/../../outside.txt", "../outside.txt", "news/../../../.bashrc", "/etc/passwd", "//etc/passwd", "", ".", "..",
    "news/", "/news/id.npy", "news//id.utf8.npy", "./news/id.utf8.npy", "news/./id.utf8.npy", "C:outside.txt",
    "C:\\outside.txt", "news\\..\\..\\outside.txt", "~/outside.txt", ".hidden", "news/.drpn", "news/a b.npy",
    "news/id.utf8.npy\n", "news/\x00", "news/\u202eid.npy", "ｎews/id.npy", "news/$HOME",
]  # fmt: skip


def outside_file(folder: Path, name: str) -> str:
    """Return the checksum of the file that the name leads to, which is written if it can be."""
    try:
        file = folder / name
        if not file.exists():
            file.write_text("all I have")
        return sha256(file)
    except (OSError, ValueError):
        return "0" * 64


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as someone who wants it to be read would: with a new checksum."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["checksum"]
    change(manifest)
    write_versioned(folder / "manifest.json", manifest)


def list_file(folder: Path, name: str) -> None:
    checksum = outside_file(folder, name)
    change_manifest(folder, lambda manifest: manifest["files"].update({name: checksum}))


@pytest.fixture
def dataset(tmp_path: Path, mind_data: Path) -> Path:
    return Path(shutil.copytree(mind_data, tmp_path / "a" / "b" / "data"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, mind_data: Path) -> Path:
    return train_small(mind_data, tmp_path_factory.mktemp("trained") / "run", epochs=1)


@pytest.fixture
def bundle(tmp_path: Path, run: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run")) / "bundle"


def test_training_does_not_overwrite_a_file_outside(tmp_path: Path, dataset: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("mine")
    (tmp_path / "a" / ".bashrc").write_text("theirs")  # news/../../../.bashrc as the dataset folder sees it
    list_file(dataset, "news/../../../.bashrc")
    message = "lists the file 'news/../../../.bashrc', which is not a plain name inside it; prepare the logs again"
    with pytest.raises(FolderError, match=message):
        train_small(dataset, home / "run", epochs=1)  # the bundle is first written to home/run/.bundle.*.partial
    assert (home / ".bashrc").read_text() == "mine"


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("verify", [True, False])
def test_a_dataset_with_an_odd_name_is_not_opened(dataset: Path, name: str, verify: bool) -> None:
    list_file(dataset, name)
    with pytest.raises(FolderError, match="is not a plain name inside it"):
        Dataset.open(dataset, verify=verify)


def test_a_bundle_with_an_odd_name_is_not_opened(bundle: Path, tmp_path: Path) -> None:
    for name in OUTSIDE:
        copy = tmp_path / "copies" / "bundle"
        shutil.copytree(bundle, copy)
        list_file(copy, name)
        with pytest.raises(RunError, match="is not a plain name inside it; train again"):
            Bundle.open(copy)
        shutil.rmtree(tmp_path / "copies")


def replace_by_link(path: Path, elsewhere: Path) -> None:
    elsewhere.parent.mkdir(exist_ok=True)
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("name", ["news/id.utf8.npy", "users"])
def test_links_within_a_dataset_are_refused(dataset: Path, tmp_path: Path, name: str) -> None:
    replace_by_link(dataset / name, tmp_path / "elsewhere" / "moved")
    with pytest.raises(FolderError, match="is a symbolic link"):
        Dataset.open(dataset, verify=False)


@pytest.mark.parametrize("name", ["model.safetensors", "README.md", "news"])
def test_links_within_a_bundle_are_refused(bundle: Path, tmp_path: Path, name: str) -> None:
    replace_by_link(bundle / name, tmp_path / "elsewhere" / "moved")
    with pytest.raises(RunError, match="is a symbolic link"):
        Bundle.open(bundle)


def test_a_file_replaced_by_a_link_after_opening_is_not_read(dataset: Path, tmp_path: Path) -> None:
    opened = Dataset.open(dataset)
    replace_by_link(dataset / "users" / "clicked.npy", tmp_path / "elsewhere" / "moved")
    with pytest.raises(FolderError, match="is a symbolic link"):
        _ = opened.clicked


def test_the_folder_itself_may_be_a_link(dataset: Path, bundle: Path, tmp_path: Path) -> None:
    for folder, opens in ((dataset, Dataset.open), (bundle, Bundle.open)):
        link = tmp_path / f"link to {folder.name}"
        link.symlink_to(folder)
        assert opens(link)


def test_a_bundle_that_does_not_list_its_weights_is_not_opened(bundle: Path) -> None:
    change_manifest(bundle, lambda manifest: manifest["files"].pop("model.safetensors"))
    with pytest.raises(RunError, match=r"does not list model\.safetensors"):
        Bundle.open(bundle)


@pytest.mark.parametrize("files", [None, "news/id.npy", 3, ["news/id.npy"]])
def test_a_manifest_without_a_table_of_files_is_refused(dataset: Path, files: Any) -> None:
    change_manifest(dataset, lambda manifest: manifest.update(files=files))
    with pytest.raises(FolderError, match="is not the manifest of a dataset folder"):
        Dataset.open(dataset)
    change_manifest(dataset, lambda manifest: manifest.pop("files"))
    with pytest.raises(FolderError, match="is not the manifest of a dataset folder"):
        Dataset.open(dataset)


def test_arrays_are_read_only(dataset: Path) -> None:
    for array in (Dataset.open(dataset).clicked, Dataset.open(dataset).news_words):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@given(st.text() | st.lists(st.sampled_from(["..", ".", "", "a", "b.npy", "C:", "\\"])).map("/".join))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    folder = Path("/nowhere/data")
    try:
        file = file_inside(folder, name, error=DrpnError, remedy="")
    except DrpnError:
        return
    assert folder in file.parents
    assert ".." not in file.parts
    assert file.relative_to(folder).as_posix() == name
