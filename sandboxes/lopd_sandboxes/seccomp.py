"""The system calls that sandboxed programs may make, as Docker and as bubblewrap want them.

``seccomp.json`` is an allow list of what Python programs, threads and subprocesses need, in
Docker's format: whatever else there is (io_uring, bpf, ptrace, mounts, new namespaces, keys,
loading of modules, ...) fails. Docker takes the text; for bubblewrap libseccomp compiles it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from lopd_gym.errors import InfrastructureError

_ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF_0000, "SCMP_ACT_ERRNO": 0x0005_0000}
_COMPARE = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


class _Argument(ctypes.Structure):
    _fields_ = (
        ("index", ctypes.c_uint),
        ("compare", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def profile_text() -> str:
    """Return the profile in Docker's format."""
    return (Path(__file__).parent / "seccomp.json").read_text(encoding="utf-8")


@cache
def compiled() -> bytes:
    """Return the profile as the filter program that the kernel loads.

    Raises:
        InfrastructureError: libseccomp is not installed, or refuses the profile.
    """
    found = ctypes.util.find_library("seccomp")
    if found is None:
        raise InfrastructureError("libseccomp is missing: install libseccomp2 (libseccomp).")
    library = ctypes.CDLL(found)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Argument),
    ]  # fmt: skip
    profile = json.loads(profile_text())
    context = library.seccomp_init(_action(profile["defaultAction"], profile["defaultErrnoRet"]))
    try:
        for rule in profile["syscalls"]:
            _add(library, context, rule)
        with tempfile.TemporaryFile() as out:
            _expect(library.seccomp_export_bpf(context, out.fileno()))
            return os.pread(out.fileno(), 1 << 20, 0)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: int, rule: dict[str, Any]) -> None:
    action = _action(rule["action"], rule.get("errnoRet", 0))
    arguments = (_Argument * 8)()
    for place, given in enumerate(rule.get("args", [])):
        first, second = given["value"], given.get("valueTwo", 0)
        arguments[place] = _Argument(given["index"], _COMPARE[given["op"]], first, second)
    count = len(rule.get("args", []))
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # else this architecture, or this libseccomp, has no such call
            _expect(library.seccomp_rule_add_array(context, action, number, count, arguments))


def _action(name: str, errno: int) -> int:
    return _ACTIONS[name] | (errno if name == "SCMP_ACT_ERRNO" else 0)


def _expect(result: int) -> None:
    if result < 0:
        raise InfrastructureError(f"libseccomp refuses the profile: {os.strerror(-result)}.")
