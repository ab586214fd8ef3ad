"""Dependencies run one way, and the command line answers at once."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "lopd_gym": ROOT / "lopd_gym",
    "lopd_envs": ROOT / "envs" / "lopd_envs",
    "lopd_learners": ROOT / "learners" / "lopd_learners",
    "lopd_sandboxes": ROOT / "sandboxes" / "lopd_sandboxes",
}
ALLOWED = {
    "lopd_gym": {"lopd_gym"},
    "lopd_envs": {"lopd_gym", "lopd_envs"},
    "lopd_learners": {"lopd_gym", "lopd_learners"},
    "lopd_sandboxes": {"lopd_gym", "lopd_sandboxes"},
}


def imported(path: Path) -> set[str]:
    """All modules that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_dependencies_run_one_way(part: str) -> None:
    files = sorted(PARTS[part].rglob("*.py"))
    assert files
    for path in files:
        own = {name.split(".")[0] for name in imported(path)} & PARTS.keys()
        assert own <= ALLOWED[part], f"{path} imports {own - ALLOWED[part]}"


def eager_imports(path: Path) -> set[str]:
    """Modules of lopd_gym that a file imports when it is imported itself."""
    found: set[str] = set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lopd_gym"):
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_no_import_circles_inside_the_core() -> None:
    base = PARTS["lopd_gym"]
    graph = {}
    for path in base.rglob("*.py"):
        parts = path.relative_to(base.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = eager_imports(path) - {name}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"import circle: {' -> '.join((*above, name))}"
        if name in done or name not in graph:
            return
        for other in graph[name]:
            visit(other, (*above, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['lopd-gym', '--help']\n"
        "from lopd_gym.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'torch', 'transformers', 'peft', 'sklearn', 'scipy', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout


def test_files_and_functions_stay_short() -> None:
    for base in PARTS.values():
        for path in base.rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            assert source.count("\n") <= 500, path
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                    assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"
