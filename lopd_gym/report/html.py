"""Templates and their rules: everything that is filled in is escaped and made visible.

A page is one file: style and script are in it, and its content policy lets no other script run,
not even one that found a way into the text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lopd_gym.report.text import visible


@cache
def environment() -> Environment:
    """Return the templates of this package."""
    found = Environment(
        loader=PackageLoader("lopd_gym.report"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["spec"] = lambda value, spec: format(value, spec)
    return found


def render(template: str, **values: Any) -> Markup:
    """Fill in a template; the result is safe to stand in another one."""
    return Markup(environment().get_template(template).render(**values))


def page(template: str, **values: Any) -> str:
    """Fill in a whole page, with its style and script."""
    style, script = (_asset(name) for name in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render(template, style=style, script=script, script_hash=digest, **values)


def _finalize(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> Markup:
    folder = files("lopd_gym.report") / "templates"
    return Markup((folder / name).read_text(encoding="utf-8"))
