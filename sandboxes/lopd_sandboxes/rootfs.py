"""A small root file system made from the host's own Python: what sandboxed programs see.

It holds the interpreter, the standard library, a shell and the shared libraries these need: about
60 MB, nothing of the host's data, and no network is needed to make it. bubblewrap binds it
read-only; the Docker image is an archive of it. So both run the same Python as the host does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from lopd_gym.errors import InfrastructureError

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
VERSION = "2"
"""Changes with what this file puts into a root, so that older roots are not taken for it."""

_PROGRAMS = ("sh", "env", "prlimit")
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "config-*", "ensurepip",
    "idlelib", "lib2to3", "tkinter", "turtledemo", "turtle.py", "_tkinter*",
)  # fmt: skip
_LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
_MOUNT_POINTS = ("proc", "dev", "sys", "tmp", "etc")
_ETC = {
    "passwd": "sandbox:x:65534:65534::/tmp:/bin/sh\n",
    "group": "sandbox:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n",
}


@cache
def python_root() -> Path:
    """Return the root for this Python, built first where it is absent (some seconds).

    It lies where a user without privileges can reach it, who is what programs run as when the
    host's process is root's: then under ``/var/cache``, else in the user's own cache.

    Raises:
        InfrastructureError: It cannot be built on this system.
    """
    if not sys.platform.startswith("linux"):
        raise InfrastructureError(
            "Expected Linux to copy the host's Python from; use Docker with the Dockerfile."
        )
    base = Path("/var/cache/lopd-gym") if os.getuid() == 0 else _user_cache()
    base.mkdir(parents=True, exist_ok=True)
    final = base / f"root-{root_key()}"
    with (base / "root.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            draft = Path(tempfile.mkdtemp(prefix="draft-", dir=base))
            try:
                build_root(draft)
                draft.rename(final)
            except (OSError, subprocess.CalledProcessError) as err:
                raise InfrastructureError(f"The sandbox's root cannot be built: {err}.") from err
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return final


@cache
def root_key() -> str:
    """Return a short hash of what a root is made from: this Python and this file's recipe."""
    binary = Path(sys.executable).resolve()
    parts = (VERSION, sys.version, str(binary), str(binary.stat().st_mtime_ns))
    return f"{PYTHON}-{hashlib.sha256('/'.join(parts).encode()).hexdigest()[:10]}"


def build_root(root: Path) -> None:
    """Fill an empty folder with the interpreter, a shell and the libraries that they need."""
    root.chmod(0o755)
    for name in (*_MOUNT_POINTS, "usr/bin", "usr/lib", "usr/lib64"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)
    programs = {PYTHON: Path(sys.executable).resolve(), **_find_programs()}
    for name, path in programs.items():
        shutil.copy(path, root / "usr/bin" / name)
    (root / "usr/bin/python3").symlink_to(PYTHON)
    (root / "usr/bin/python").symlink_to(PYTHON)
    library = root / "usr/lib" / PYTHON
    shutil.copytree(sysconfig.get_path("stdlib"), library, symlinks=True, ignore=_LEFT_OUT)
    extensions = Path(sysconfig.get_config_var("DESTSHARED"))
    if not (library / extensions.name).exists():
        shutil.copytree(extensions, library / extensions.name, ignore=_LEFT_OUT)
    for library in _libraries([*programs.values(), *extensions.glob("*.so")]):
        _copy_library(library, root)


def _find_programs() -> dict[str, Path]:
    found = {name: shutil.which(name, path=os.defpath) for name in _PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise InfrastructureError(f"Expected {', '.join(missing)} on this system: install it.")
    return {name: Path(str(path)).resolve() for name, path in found.items()}


def _libraries(binaries: Iterable[Path]) -> Iterator[Path]:
    """Ask the dynamic linker which shared libraries some binaries load, itself included."""
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    yield from sorted({Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)})


def _copy_library(library: Path, root: Path) -> None:
    """Copy a library to where the linker finds it by default."""
    system = str(library).startswith(("/lib", "/usr/lib"))
    target = root / (str(library)[1:].removeprefix("usr/") if system else f"lib/{library.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(library.resolve(), target)


def _user_cache() -> Path:
    home = os.environ.get("LOPD_GYM_HOME") or Path.home() / ".cache" / "lopd-gym"
    return Path(home).expanduser() / "sandbox"
