"""The connection to a Docker engine: which one, with which image and runtime, and whose containers.

Containers carry labels that say whose they are: the host, and a folder that their owner keeps
locked while it lives. So what a killed owner left behind is found by any later process.
"""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Isolation
from lopd_sandboxes.docker import reaper
from lopd_sandboxes.rootfs import PYTHON, python_root, root_key
from lopd_sandboxes.scratch import ScratchFolder
from lopd_sandboxes.start import start_reaper

ENGINE_ERRORS = (DockerException, RequestException, OSError)
IMAGE_VARIABLE = "LOPD_GYM_SANDBOX_IMAGE"
REPOSITORY = "lopd-gym-sandbox"
HOST_LABEL, OWNER_LABEL, CREATED_LABEL = (f"lopd-gym.{x}" for x in ("host", "owner", "created"))
_HOST = f"{platform.node()}:{tempfile.gettempdir()}"
_GVISOR = "runsc"
_STARTED_WITHIN_S = 600.0
"""A container that is only created after this long was lost by its owner."""

_INSTALL = "start Docker, or name its socket in DOCKER_HOST"
_CHANGES = ["USER 65534:65534", "WORKDIR /tmp", "ENV PATH=/usr/bin LANG=C.UTF-8"]


class Engine:
    """A connected engine.

    Raises:
        InfrastructureError: No engine answers, or it is reached over a network without TLS.
    """

    def __init__(self) -> None:
        address = os.environ.get("DOCKER_HOST", "")
        if address.startswith(("tcp://", "http://")) and not os.environ.get("DOCKER_TLS_VERIFY"):
            raise InfrastructureError(
                f"DOCKER_HOST is '{address}', which anyone on the network can use as root: expected"
                " a unix socket or TLS (DOCKER_TLS_VERIFY)."
            )
        try:
            self.client = docker.from_env(timeout=60)
            self.api: Any = self.client.api
            self.runtimes = self.client.info().get("Runtimes", {})
        except ENGINE_ERRORS as err:
            raise InfrastructureError(f"No Docker engine answers ({err}): {_INSTALL}.") from err
        self.owner = ScratchFolder()
        self._reaper: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        """Start the process that removes this owner's containers if it is killed."""
        self._reaper = start_reaper(reaper.__file__, f"{OWNER_LABEL}={self.owner.path}")

    def close(self) -> None:
        """Hang up; may be called twice."""
        if self._reaper is not None:
            self._reaper.kill()
            self._reaper.communicate()
            self._reaper = None
        self.client.close()
        self.owner.remove()

    @property
    def runtime(self) -> str | None:
        """GVisor's runtime where the engine has it, else None for the engine's own."""
        return _GVISOR if _GVISOR in self.runtimes else None

    @property
    def isolation(self) -> Isolation:
        """The level that containers of this engine reach."""
        return Isolation.CONTAINER if self.runtime is None else Isolation.GVISOR

    def labels(self) -> dict[str, str]:
        """Return the labels of a new container of this process."""
        now = str(int(time.time()))
        return {HOST_LABEL: _HOST, OWNER_LABEL: str(self.owner.path), CREATED_LABEL: now}

    def image(self) -> str:
        """Return the name of the image with this Python, made first where it is absent."""
        given = os.environ.get(IMAGE_VARIABLE)
        name = given or image_name()
        try:
            self.api.inspect_image(name)
        except NotFound:
            if given:
                raise InfrastructureError(
                    f"No image is called '{given}' ({IMAGE_VARIABLE}): build or pull it."
                ) from None
            self.build_image()
        except ENGINE_ERRORS as err:
            raise InfrastructureError(f"The Docker engine failed: {err}.") from err
        return name

    def build_image(self) -> None:
        """Make the image: of the host's own Python, or on hosts without Linux by the Dockerfile.

        The first needs no registry and takes some seconds; the second pulls Python's own image.

        Raises:
            InfrastructureError: The engine refuses, or the registry cannot be reached.
        """
        name = image_name()
        try:
            if sys.platform.startswith("linux"):
                self._import_image(name)
            else:
                base = {"BASE": f"{PYTHON.replace('python', 'python:')}-slim"}
                folder = str(Path(__file__).parent)
                self.client.images.build(path=folder, tag=name, buildargs=base, rm=True)
            self.api.inspect_image(name)
        except ENGINE_ERRORS as err:
            raise InfrastructureError(f"The sandbox image cannot be made: {err}.") from err

    def _import_image(self, name: str) -> None:
        repository, tag = name.split(":")
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            pack(python_root(), Path(archive.name))
            self.api.import_image_from_file(
                archive.name, repository=repository, tag=tag, changes=_CHANGES
            )

    def remove(self, container: str) -> None:
        """Remove a container at once, whatever it does; one that is gone already is fine."""
        try:
            self.api.remove_container(container, force=True, v=True)
        except APIError as err:
            if err.status_code not in (404, 409):  # gone, or on its way
                raise

    def ran_out_of_memory(self, container: str, since: float) -> bool:
        """Return whether the kernel killed a process of a container, gone or not, for memory."""
        wanted = {"container": container, "event": "oom"}
        with suppress(*ENGINE_ERRORS):
            events = self.api.events(
                since=int(since), until=int(time.time()), filters=wanted, decode=True
            )
            return any(True for _ in events)
        return False

    def sweep(self) -> list[str]:
        """Remove the containers of owners that are gone, and return their names.

        Raises:
            InfrastructureError: The engine fails.
        """
        removed = []
        try:
            for found in self.api.containers(all=True, filters={"label": OWNER_LABEL}):
                if _is_orphan(found):
                    self.remove(found["Id"])
                    removed.append(found["Names"][0].lstrip("/"))
        except ENGINE_ERRORS as err:
            raise InfrastructureError(f"The Docker engine failed: {err}.") from err
        return removed


def image_name() -> str:
    """Return the name of the image for this Python."""
    return f"{REPOSITORY}:{root_key()}"


def pack(root: Path, archive: Path) -> None:
    """Archive a root so that the same files give the same bytes."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(archive, "w") as out:
        for path in sorted(root.rglob("*")):
            out.add(path, str(path.relative_to(root)), recursive=False, filter=plain)


def _is_orphan(found: dict[str, Any]) -> bool:
    labels = found["Labels"]
    if not {HOST_LABEL, CREATED_LABEL} <= labels.keys():
        return False
    age_s = time.time() - int(labels[CREATED_LABEL])
    if found["State"] == "created" and age_s > _STARTED_WITHIN_S:
        return True
    return labels[HOST_LABEL] == _HOST and not _is_locked(Path(labels[OWNER_LABEL]))


def _is_locked(folder: Path) -> bool:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
