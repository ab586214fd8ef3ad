"""Upstream's own runner, decoders and scorer, from the installed wheel, as the reference.

Only texts that do no harm may be given to it: it evaluates them. The packages that its modules
import and these functions never use are replaced by empty ones.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

_UNUSED = "dotenv overrides pandas tenacity tree_sitter tree_sitter_java tree_sitter_javascript"
_UNKNOWN_MODEL: dict[str, Any] = {
    **dict.fromkeys(("display_name", "url", "org", "license"), "m"),
    **dict.fromkeys(("input_price", "output_price")),
}


class Upstream:
    """The functions of the wheel that a test compares with."""

    def __init__(self, folder: Path) -> None:
        os.environ["BFCL_PROJECT_ROOT"] = str(folder)  # importing it makes folders there
        self.model = SimpleNamespace(underscore_to_dot=True, **_UNKNOWN_MODEL)
        with _stand_ins(self.model):
            load = importlib.import_module
            self.runner = load("bfcl_eval.eval_checker.eval_runner")
            self.handler = load("bfcl_eval.model_handler.base_handler")
            self.decoders = load("bfcl_eval.model_handler.utils")
            self.utils = load("bfcl_eval.utils")
            self.enums = load("bfcl_eval.constants.enums")
            self.leaderboard = load("bfcl_eval.eval_checker.eval_runner_helper")
            self.executor = load("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
            source = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
            self.decoys = load(f"{source}.long_context")

    def play(self, entry: dict[str, Any], replies: list[str]) -> tuple[list[list[str]], list[str]]:
        """Run upstream's inference loop on scripted replies; returns them by turn, and results."""
        player = _player(self)(f"m{uuid.uuid4().hex}", replies)
        with self._clean(), contextlib.redirect_stdout(io.StringIO()):
            result, _ = player.inference_multi_turn_prompting(deepcopy(entry), False, True)
        return result, player.results

    def score(self, entry: dict[str, Any], truth: Any, result: list[list[str]]) -> bool:
        """Return the official verdict on a multi-turn result."""
        name = f"m{uuid.uuid4().hex}"
        decoder = SimpleNamespace(decode_execute=self.decoders.default_decode_execute_prompting)
        category = entry["id"].rsplit("_", 1)[0]
        with self._clean():
            found = self.runner._evaluate_single_multi_turn_entry(
                decoder, entry["id"], result, truth, deepcopy(entry), name, category
            )
        return bool(found["valid"])

    def score_answer(self, entry: dict[str, Any], truth: Any, reply: Any, dotted: bool) -> bool:
        """Return the official verdict on a single-turn reply: text, or decoded calls."""
        self.model.underscore_to_dot = not dotted
        category = entry["id"].rsplit("_", 1)[0]
        language, form = self.enums.Language.PYTHON, self.enums.ReturnFormat.PYTHON
        if "java" in category:
            language = self.enums.Language(
                {"simple_java": "java", "simple_javascript": "javascript"}[category]
            )
        given = (SimpleNamespace(decode_ast=self._decode_ast), entry["id"], reply)
        if truth is None:
            found = self.runner._evaluate_single_relevance_entry(*given, entry, "model", category)
        else:
            found = self.runner._evaluate_single_ast_entry(
                *given, truth, entry, "model", category, language, form
            )
        return bool(found["valid"])

    def _decode_ast(self, reply: Any, language: Any, has_tool_call_tag: bool) -> Any:
        if isinstance(reply, str):
            return self.decoders.default_decode_ast_prompting(reply, language, has_tool_call_tag)
        return reply

    @contextlib.contextmanager
    def _clean(self) -> Iterator[None]:
        """Drop the instances that upstream keeps, and mend the decoys that they change."""
        before = set(vars(self.executor))
        names = ("CREDIT_CARD_EXTENSION", "BOOKING_RECORD_EXTENSION")
        kept = {name: deepcopy(getattr(self.decoys, name)) for name in names}
        try:
            yield
        finally:
            for name in set(vars(self.executor)) - before:
                delattr(self.executor, name)
            for name, value in kept.items():
                decoy = getattr(self.decoys, name)
                decoy.clear()
                decoy.update(value)


def _player(upstream: Upstream) -> type[Any]:
    """Return a model for upstream's inference loop that says what it was told to."""

    class Player(upstream.handler.BaseHandler):  # type: ignore[misc, name-defined]
        def __init__(self, name: str, replies: list[str]) -> None:
            super().__init__(name, 0, name, False)
            self.replies = iter(replies)
            self.results: list[str] = []

        def decode_execute(self, result: str, has_tool_call_tag: bool) -> Any:
            return upstream.decoders.default_decode_execute_prompting(result)

        def _pre_query_processing_prompting(self, test_entry: Any) -> Any:
            return {}

        def _query_prompting(self, inference_data: Any) -> Any:
            return next(self.replies, "Done."), 0.0

        def _parse_query_response_prompting(self, api_response: Any) -> Any:
            return {"model_responses": api_response, "input_token": 0, "output_token": 0}

        def _same(self, inference_data: Any, *_: Any) -> Any:
            return inference_data

        add_first_turn_message_prompting = _same
        _add_next_turn_user_message_prompting = _same
        _add_assistant_message_prompting = _same

        def _add_execution_results_prompting(self, data: Any, results: Any, _: Any) -> Any:
            self.results += results
            return data

    return Player


@contextlib.contextmanager
def _stand_ins(model: SimpleNamespace) -> Iterator[None]:
    config = MagicMock(MODEL_CONFIG_MAPPING=defaultdict(lambda: model))
    names = [n for n in _UNUSED.split() if importlib.util.find_spec(n) is None]
    stubs = {name: MagicMock() for name in names}
    if "overrides" in stubs:
        stubs["overrides"].final = stubs["overrides"].override = lambda function: function
    stubs["bfcl_eval.constants.model_config"] = config
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]
