"""The `bfcl-eval` wheel that the user installs: which release it is, and its code, imported apart.

The wheel's own dependencies (every vendor's SDK) are not needed: what is used here imports with the
standard library, except `MathAPI`, which needs mpmath. Two releases can be loaded side by side, and
an import of `bfcl_eval` by somebody else is not disturbed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from lopd_gym.errors import DataError

PACKAGE = "bfcl_eval"
DEFAULT_VERSION = "2026.3.23"
INSTALL = f"pip install --no-deps bfcl-eval=={DEFAULT_VERSION}"


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the wheel that scores may come from; ``prefix`` begins its data files' names."""

    version: str
    prefix: str


RELEASES = {
    "915da14673b1a1f34873cece4654e6e0eeb57e4f4b3d7946ac0534a9d6107111": Release(
        DEFAULT_VERSION, "BFCL_v4"
    ),
    "eb09945e481bcfb763d0759f2c1c2bb8dd5571a024fc42bdfc29152a151fd5d2": Release(
        "2025.8.6.2", "BFCL_v3"
    ),
}
"""The known releases, by the hash of their data and scoring code."""

API_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
"""The module of each simulated API; its function documents have the same file name."""


@dataclass(frozen=True, eq=False)
class Wheel:
    """One release, ready to use.

    Attributes:
        folder: The package folder.
        release: Which release it is.
        hash: SHA-256 of all data files and scoring sources.
        apis: The classes of the simulated APIs.
        multi_turn: Upstream's module ``multi_turn_checker``.
        single_turn: Upstream's module ``ast_checker``.
        prompts: Upstream's module ``default_prompts``.
        types: Upstream's module ``type_mappings``.
        languages: What upstream's ``ast_checker`` takes as language, by category's language.
        mpmath: The library whose global precision `MathAPI` sets.
    """

    folder: Path
    release: Release
    hash: str
    apis: Mapping[str, type]
    multi_turn: Any
    single_turn: Any
    prompts: Any
    types: Any
    languages: Mapping[str, Any]
    mpmath: Any


def find_package(folder: Path | None = None) -> Path:
    """Return the folder of the package: the installed one, or the one inside ``folder``.

    Raises:
        DataError: It is not there.
    """
    if folder is not None:
        package = folder if folder.name == PACKAGE else folder / PACKAGE
        if not (package / "data").is_dir():
            raise DataError(
                f"Expected the package {PACKAGE} in {folder}, found none: run "
                f"'{INSTALL} --target {folder}'."
            )
        return package
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"BFCL's data and checkers are not installed: run '{INSTALL}'.")
    return Path(spec.submodule_search_locations[0])


@lru_cache(maxsize=4)
def load_wheel(folder: Path | None = None) -> Wheel:
    """Load the wheel's code and identify its release.

    Raises:
        DataError: It is absent, altered, not a known release, or mpmath is missing.
    """
    package = find_package(folder)
    found = content_hash(package)
    release = RELEASES.get(found)
    if release is None:
        known = " or ".join(r.version for r in RELEASES.values())
        raise DataError(
            f"Expected bfcl-eval {known}, unaltered, in {package}, found another content "
            f"(hash {found[:12]}): run '{INSTALL}'."
        )
    try:
        import mpmath
    except ImportError as err:
        raise DataError("BFCL's MathAPI needs mpmath: run 'pip install mpmath==1.3.0'.") from err
    with _imported_apart(package) as load:
        source = "eval_checker.multi_turn_eval.func_source_code"
        apis = {name: getattr(load(f"{source}.{m}"), name) for name, m in API_MODULES.items()}
        wheel = Wheel(
            folder=package,
            release=release,
            hash=found,
            apis=apis,
            multi_turn=load("eval_checker.multi_turn_eval.multi_turn_checker"),
            single_turn=load("eval_checker.ast_eval.ast_checker"),
            prompts=load("constants.default_prompts"),
            types=load("constants.type_mappings"),
            languages=_languages(package, load),
            mpmath=mpmath,
        )
    return wheel


def content_hash(package: Path) -> str:
    """Return one SHA-256 over names and contents of all data files and scoring sources."""
    total = hashlib.sha256()
    files = [*package.glob("data/**/*.json"), *package.glob("eval_checker/**/*.py")]
    files += package.glob("constants/*.py")
    for path in sorted(files, key=lambda p: p.relative_to(package).as_posix()):
        if "unused_datasets" in path.parts:
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(package).as_posix()} {digest}\n".encode())
    return total.hexdigest()


_IMPORTING = threading.Lock()


@contextmanager
def _imported_apart(package: Path) -> Iterator[Any]:
    """Yield a function that imports submodules of the package, and leave `sys.modules` as it was.

    ``constants.model_config`` is replaced by a stand-in: upstream's imports every vendor's SDK,
    and all that the checker asks of it is whether dots in function names were written as ``_``.
    """
    with _IMPORTING:
        before = _take_modules()
        root = ModuleType(PACKAGE)
        root.__path__ = [str(package)]
        config = ModuleType(f"{PACKAGE}.constants.model_config")
        config.MODEL_CONFIG_MAPPING = _AnyModel()  # type: ignore[attr-defined]
        sys.modules.update({PACKAGE: root, config.__name__: config})
        try:
            yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
        finally:
            _take_modules()
            sys.modules.update(before)


def _take_modules() -> dict[str, ModuleType]:
    names = [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}


DOTTED = "dotted"
"""The model name that tells the checker that dots in function names were kept."""


class _AnyModel(dict[str, Any]):
    """Upstream's table of models, as far as the checker looks: any name is a model."""

    def __missing__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(underscore_to_dot=name != DOTTED)


def _languages(package: Path, load: Any) -> dict[str, Any]:
    names = {"python": "Python", "java": "Java", "javascript": "JavaScript"}
    if not (package / "constants" / "enums.py").exists():
        return dict(names)
    language = load("constants.enums").Language
    return {name: language(name) for name in names}
