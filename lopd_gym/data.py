"""Benchmark data: which version is meant, fetching it, checking it.

A `DataSet` is registered under a name in the entry-point group ``lopd_gym.datasets``. Every file
lies on the Hugging Face hub or has a plain address, and is pinned by SHA-256. Pulled files lie in
``~/.cache/lopd-gym/<name>``, or under ``LOPD_GYM_HOME``.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import shutil
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lopd_gym.errors import DataError
from lopd_gym.registry import DATASETS, load

CONNECT_S = 10.0
"""How long a server may take to answer the question for a file."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data-set repository on the hub, pinned."""

    repo_id: str
    revision: str
    filename: str
    sha256: str

    @property
    def origin(self) -> str:
        """Where the file comes from, for messages."""
        return f"{self.repo_id} on the Hugging Face hub"

    def fetch(self, folder: Path) -> None:
        """Download the file into ``folder``; raises `DataError` where that fails."""
        _download(self, folder)


@dataclass(frozen=True, slots=True)
class WebFile:
    """One file at a plain address.

    A ``.gz`` file is unpacked, and its content is what is pinned: packing the same content again
    gives other bytes.
    """

    url: str
    filename: str
    sha256: str

    @property
    def origin(self) -> str:
        """Where the file comes from, for messages."""
        return self.url

    def fetch(self, folder: Path) -> None:
        """Download the file into ``folder``; raises `DataError` where that fails."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.filename
        partial = path.with_name(f".{path.name}.part")
        try:
            with urllib.request.urlopen(self.url, timeout=CONNECT_S) as answer:
                packed = self.url.endswith(".gz")
                stream = gzip.GzipFile(fileobj=answer) if packed else answer
                with partial.open("wb") as out:
                    shutil.copyfileobj(stream, out)
            partial.replace(path)
        except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as err:
            partial.unlink(missing_ok=True)
            raise DataError(
                f"Cannot fetch {self.url} ({err}): connect to the network, or put the file into "
                f"{folder} yourself."
            ) from err


@dataclass(frozen=True, slots=True)
class DataSet:
    """The files that a benchmark needs, and under which licence they come.

    ``by_hand`` says how to get data whose files are not pinned, so not fetched either.
    """

    name: str
    summary: str
    license: str
    source: str
    files: tuple[DataFile | WebFile, ...]
    by_hand: str = ""

    @property
    def folder(self) -> Path:
        """Where pulled files lie."""
        return home() / self.name

    @property
    def present(self) -> bool:
        """Whether all files are there; does not look inside them."""
        return bool(self.files) and all((self.folder / f.filename).is_file() for f in self.files)

    def pull(self, on_file: Callable[[DataFile | WebFile], None] = lambda _: None) -> Path:
        """Fetch what is missing or altered, verify it, and return the folder.

        Args:
            on_file: Called with each file before it is fetched.

        Raises:
            DataError: The network cannot be reached, or sent something else than the pinned file,
                or the data is to be fetched by hand.
        """
        if self.by_hand:
            raise DataError(self.by_hand)
        for file in self.files:
            path = self.folder / file.filename
            if path.is_file() and sha256(path) == file.sha256:
                continue
            on_file(file)
            file.fetch(self.folder)
            try:
                verify_file(path, file.sha256)
            except DataError:
                path.unlink(missing_ok=True)
                raise
        return self.folder

    def verify(self) -> None:
        """Hash the pulled files again; raises `DataError` for the first that is not as pinned."""
        if self.by_hand:
            raise DataError(self.by_hand)
        for file in self.files:
            path = self.folder / file.filename
            if not path.is_file():
                raise DataError(
                    f"{path} is missing: run 'lopd-gym data pull {self.name}' to fetch it."
                )
            verify_file(path, file.sha256)


def home() -> Path:
    """Return the folder that holds all pulled data."""
    return Path(os.environ.get("LOPD_GYM_HOME") or Path.home() / ".cache" / "lopd-gym").expanduser()


def find(name: str) -> DataSet:
    """Return the registered data set of this name; raises `UsageError` if there is none."""
    return cast(DataSet, load(DATASETS, name))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_file(path: Path, expected: str) -> None:
    """Raise `DataError` unless the file's SHA-256 is the expected one."""
    found = sha256(path)
    if found != expected:
        raise DataError(
            f"{path} is not the expected version: expected SHA-256 {expected}, found {found}; "
            "it is truncated or altered, so fetch it again."
        )


def _download(file: DataFile, folder: Path) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import OfflineModeIsEnabled

    folder.mkdir(parents=True, exist_ok=True)
    repository, name, revision = file.repo_id, file.filename, file.revision
    url = hf_hub_url(repository, name, repo_type="dataset", revision=revision)
    try:
        # Asked once, and first: the download itself goes on asking an absent hub for a long time.
        get_hf_file_metadata(url, timeout=CONNECT_S)
        # Forced: the hub's client takes a file that was altered within a second for a fresh one.
        hf_hub_download(
            repository,
            name,
            repo_type="dataset",
            revision=revision,
            local_dir=folder,
            force_download=True,
        )
    except Exception as err:  # of whichever HTTP library the hub's client is built on
        offline = isinstance(err, OfflineModeIsEnabled)
        cause = "HF_HUB_OFFLINE is set" if offline else str(err).strip().split("\n")[0]
        raise DataError(
            f"Cannot fetch {name} of {repository} from the Hugging Face hub "
            f"({cause or type(err).__name__}): connect to the network, or put the file into "
            f"{folder} yourself."
        ) from err
