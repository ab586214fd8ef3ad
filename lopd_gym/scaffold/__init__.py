"""Make a package with a new environment in it: small, but sound, tested and registered.

The files in ``package/`` are Jinja templates.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from lopd_gym.errors import UsageError
from lopd_gym.registry import ENVS, names

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "env.py": "{module}/__init__.py",
    "tests/test_env.py": "tests/test_{module}.py",
}


@dataclass(frozen=True, slots=True)
class NewEnvironment:
    """How a new environment is called.

    Attributes:
        name: Under which it is registered: lower case, words joined by hyphens.
    """

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"Expected a name in lower case, its words joined by hyphens, such as "
                f"'thermostat' or 'travel-desk'; found '{self.name}'."
            )
        if self.name in names(ENVS):
            raise UsageError(f"An environment '{self.name}' is installed already: name another.")
        taken = keyword.iskeyword(self.module) or self.module in sys.stdlib_module_names
        if taken or importlib.util.find_spec(self.module) is not None:
            raise UsageError(
                f"Python knows a module or a word '{self.module}' already: name another."
            )

    @property
    def module(self) -> str:
        """The name of its Python module."""
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        """The name of its class."""
        return "".join(word.capitalize() for word in self.name.split("-"))


def write_package(new: NewEnvironment, folder: Path) -> list[Path]:
    """Write the package, whole or not at all.

    Args:
        new: The environment.
        folder: Where; must not exist, or be empty.

    Returns:
        The files, relative to the folder.

    Raises:
        UsageError: Something is there already.
        OSError: The files cannot be written.
    """
    if folder.is_file() or (folder.exists() and any(folder.iterdir())):
        raise UsageError(f"'{folder}' exists and is not empty: name another folder with --to.")
    templates = Environment(
        loader=PackageLoader("lopd_gym.scaffold", "package"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        whole = Path(temporary) / "package"
        for template, target in _FILES.items():
            path = Path(target.format(module=new.module))
            (whole / path).parent.mkdir(parents=True, exist_ok=True)
            text = templates.get_template(f"{template}.jinja").render(new=new)
            (whole / path).write_text(text, encoding="utf-8")
            written.append(path)
        if folder.exists():
            folder.rmdir()
        whole.rename(folder)
    return written
