"""Tools: schemas from signatures, and wrong calls that are answered instead of raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopd_gym.errors import InfrastructureError
from lopd_gym.tools import MethodTools, tool


class Shop:
    """A stateful owner of tools."""

    def __init__(self) -> None:
        self.sold: list[tuple[str, int]] = []

    @tool
    def sell(self, item: str, count: int = 1, note: str | None = None) -> dict[str, Any]:
        """Sell an item.

        Stock is checked first.

        Args:
            item: Name of the item.
            count: How many.
            note: Written on the bill.
        """
        if count < 0:
            raise ValueError("count below zero")
        self.sold.append((item, count))
        return {"ok": True, "left": 3}

    def secret(self) -> str:
        """Not a tool."""
        return "hidden"


def test_the_schema_comes_from_signature_and_docstring() -> None:
    (spec,) = MethodTools(Shop()).specs()
    assert spec.name == "sell"
    assert spec.description == "Sell an item.\n\nStock is checked first."
    assert spec.parameters["required"] == ["item"]
    properties = spec.parameters["properties"]
    assert properties["item"] == {"type": "string", "description": "Name of the item."}
    assert properties["count"]["type"] == "integer"
    assert spec.as_openai()["function"]["name"] == "sell"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("buy", {}, "unknown tool 'buy'"),
        ("secret", {}, "unknown tool 'secret'"),
        ("__init__", {}, "unknown tool '__init__'"),
        ("sell", {}, "argument item: Field required"),
        ("sell", {"item": "pen", "colour": "red"}, "argument colour: Extra inputs"),
        ("sell", {"item": "pen", "count": "many"}, "argument count"),
        ("sell", {"item": ["pen"]}, "argument item"),
    ],
)
def test_wrong_calls_are_refused_with_a_reason(
    name: str, arguments: dict[str, Any], words: str
) -> None:
    shop = Shop()
    result = MethodTools(shop).call(name, arguments)
    assert result.refused
    assert words in json.loads(result.content)["error"]
    assert shop.sold == []


def test_a_tool_that_raises_is_reported_as_such() -> None:
    result = MethodTools(Shop()).call("sell", {"item": "pen", "count": -1})
    assert not result.refused
    assert result.raised == "ValueError('count below zero')"
    assert "count below zero" in result.content


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text(), st.dictionaries(st.text(), json_values))
def test_nothing_a_model_sends_raises(name: str, arguments: dict[str, Any]) -> None:
    for called in (name, "sell"):
        assert isinstance(MethodTools(Shop()).call(called, arguments).content, str)


def test_an_undocumented_or_untyped_tool_is_an_authors_error() -> None:
    class Undocumented:
        @tool
        def act(self) -> None:
            pass

    class Untyped:
        @tool
        def act(self, what) -> None:  # type: ignore[no-untyped-def]
            """Act."""

    with pytest.raises(TypeError, match="no docstring"):
        MethodTools(Undocumented())
    with pytest.raises(TypeError, match="no type hint"):
        MethodTools(Untyped())


def test_broken_machinery_is_no_observation() -> None:
    class Broken:
        @tool
        def ask(self) -> str:
            """Ask a service that is gone."""
            raise InfrastructureError("gone")

    with pytest.raises(InfrastructureError, match="gone"):
        MethodTools(Broken()).call("ask", {})
