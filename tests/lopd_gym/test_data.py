"""Benchmark data: pulled from a hub, pinned and verified; without one, a sentence and no wait."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lopd_gym.data import DataFile, WebFile, find, home
from lopd_gym.errors import DataError, UsageError

CONTENT = b'{"whole": true}'
REVISION = "0123456789abcdef0123456789abcdef01234567"
PATH = f"/datasets/somebody/things/resolve/{REVISION}/things.json"


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as one download needs."""

    content = CONTENT
    paths: tuple[str, ...] = (PATH,)

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(self.content)

    def _answer(self, body: bytes) -> None:
        self.send_response(200 if self.path in self.paths else 404)
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("ETag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.content, Hub.paths = CONTENT, (PATH,)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A third party's package that registers a data set."""
    (tmp_path / "their_data.py").write_text(
        "from lopd_gym.data import DataFile, DataSet\n"
        f"FILE = DataFile('somebody/things', '{REVISION}', 'things.json',"
        f" '{hashlib.sha256(CONTENT).hexdigest()}')\n"
        "DATA = DataSet('things', 'some things', 'MIT', 'https://example.org', (FILE,))\n"
    )
    info = tmp_path / "their_data-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-data\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lopd_gym.datasets]\nthings = their_data:DATA\n")
    return tmp_path


def lopd_gym(package: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    environment = {
        **kept,
        "PYTHONPATH": str(package),
        "LOPD_GYM_HOME": str(package / "home"),
        "HF_HOME": str(package / "hf"),
        "NO_PROXY": "127.0.0.1",
        "COLUMNS": "200",
        **changes,
    }
    command = [sys.executable, "-m", "lopd_gym.cli.main", "data", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_pull_fetches_and_verifies_and_verify_tells_what_changed(package: Path, hub: str) -> None:
    done = lopd_gym(package, "pull", "things", HF_ENDPOINT=hub)
    assert done.returncode == 0, done.stderr
    assert "complete and verified" in done.stdout
    path = package / "home" / "things" / "things.json"
    assert path.read_bytes() == CONTENT
    assert lopd_gym(package, "verify", "things").returncode == 0
    listed = lopd_gym(package, "list").stdout
    assert "some things" in listed
    assert "envscaler" in listed
    # What is there is not fetched again, so no hub is needed.
    assert lopd_gym(package, "pull", "things", HF_ENDPOINT="http://127.0.0.1:9").returncode == 0
    path.write_bytes(CONTENT[:-1])
    spoilt = lopd_gym(package, "verify", "things")
    assert spoilt.returncode == 1
    assert "expected SHA-256" in spoilt.stderr
    assert lopd_gym(package, "pull", "things", HF_ENDPOINT=hub).returncode == 0
    assert path.read_bytes() == CONTENT


def test_a_file_at_a_plain_address_is_unpacked_and_verified(tmp_path: Path, hub: str) -> None:
    packed = gzip.compress(CONTENT)
    Hub.content = packed
    file = WebFile(hub + PATH + ".gz", "things.json", hashlib.sha256(CONTENT).hexdigest())
    with pytest.raises(DataError, match="404"):
        file.fetch(tmp_path)
    Hub.paths = (PATH, PATH + ".gz")
    file.fetch(tmp_path)
    assert (tmp_path / "things.json").read_bytes() == CONTENT
    Hub.content = packed[:-9]
    with pytest.raises(DataError, match=r"Cannot fetch .*things\.json\.gz"):
        file.fetch(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["things.json"]


def test_a_hub_that_sends_something_else_is_refused(package: Path, hub: str) -> None:
    Hub.content = b'{"other": true}'
    done = lopd_gym(package, "pull", "things", HF_ENDPOINT=hub)
    assert done.returncode == 1
    assert "expected SHA-256" in done.stderr
    assert not (package / "home" / "things" / "things.json").exists()


@pytest.mark.parametrize("command", ["pull", "verify"])
def test_data_that_is_fetched_by_hand_says_how(tmp_path: Path, command: str) -> None:
    done = lopd_gym(tmp_path, command, "livecodebench", HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "put test.jsonl, test2.jsonl" in done.stderr
    assert "--data" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "by hand" in lopd_gym(tmp_path, "list").stdout
    assert not find("livecodebench").present


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "Connection refused"),
    ],
)
def test_no_network_is_one_sentence_at_once(
    package: Path, changes: dict[str, str], cause: str
) -> None:
    started = time.monotonic()
    done = lopd_gym(package, "pull", "envscaler", **changes)
    assert time.monotonic() - started < 20
    assert done.returncode == 1
    assert cause in done.stderr
    assert "connect to the network, or put the file into" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_absent_file_is_one_sentence(package: Path, hub: str) -> None:
    done = lopd_gym(package, "pull", "envscaler", HF_ENDPOINT=hub)
    assert done.returncode == 1
    assert "404" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_wrong_names_and_missing_files(package: Path) -> None:
    done = lopd_gym(package, "pull", "envscale")
    assert done.returncode == 2
    assert "did you mean 'envscaler'" in done.stderr
    done = lopd_gym(package, "verify", "things")
    assert done.returncode == 1
    assert "lopd-gym data pull things" in done.stderr


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOPD_GYM_HOME", raising=False)
    assert home() == Path.home() / ".cache" / "lopd-gym"
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path))
    data = find("envscaler")
    assert data.folder == tmp_path / "envscaler"
    assert not data.present
    data.folder.mkdir()
    for file in data.files:
        (data.folder / file.filename).write_bytes(b"[]")
    assert data.present
    with pytest.raises(DataError, match="is not the expected version"):
        data.verify()
    with pytest.raises(UsageError, match="No data set"):
        find("nothing")


def test_every_file_is_pinned() -> None:
    for file in find("envscaler").files:
        assert isinstance(file, DataFile)
        assert len(file.revision) == 40
        assert len(file.sha256) == 64
