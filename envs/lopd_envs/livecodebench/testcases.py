"""The tests of a LiveCodeBench row, decoded without ever unpickling anything.

Private tests come as JSON, or as base64 of zlib of a pickle of one string that is JSON. A pickle
can run any code when it is loaded; so this module walks its opcodes, accepts those of a single
string, and takes the string.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from lopd_gym.errors import DataError

MAX_UNPACKED_BYTES = 1 << 28
"""More than any genuine row holds."""

_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_HARMLESS = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "STOP"}) | _STRINGS


class TestCase(BaseModel):
    """One test: text on standard input, or JSON arguments one a line, and what should come out."""

    model_config = ConfigDict(frozen=True)

    input: str
    output: str
    testtype: Literal["stdin", "functional"]


_CASES = TypeAdapter(list[TestCase])


def read_tests(text: str, where: str) -> tuple[TestCase, ...]:
    """Read tests in either encoding; ``where`` names them in errors.

    Raises:
        DataError: The text is neither encoding, is too large, or holds no test.
    """
    try:
        plain = json.loads(text)
    except ValueError:
        plain = _json_of(_only_string(_unpacked(text, where), where), where)
    try:
        cases = _CASES.validate_python(plain)
    except ValidationError as err:
        problem = err.errors(include_url=False)[0]
        path = ".".join(str(p) for p in problem["loc"])
        raise DataError(f"{where}: expected a list of tests: {path} {problem['msg']}.") from err
    if not cases:
        raise DataError(f"{where}: expected at least one test, found none.")
    return tuple(cases)


def _json_of(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise DataError(f"{where}: the packed tests are not JSON ({err}).") from err


def _unpacked(text: str, where: str) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        decompressor = zlib.decompressobj()
        content = decompressor.decompress(packed, MAX_UNPACKED_BYTES)
    except (binascii.Error, ValueError, zlib.error) as err:
        raise DataError(f"{where}: the tests are neither JSON nor packed JSON ({err}).") from err
    if decompressor.unconsumed_tail:
        raise DataError(f"{where}: the tests unpack to more than {MAX_UNPACKED_BYTES >> 20} MiB.")
    if not decompressor.eof or decompressor.unused_data:
        raise DataError(f"{where}: the packed tests are truncated or have something after them.")
    return content


def _only_string(content: bytes, where: str) -> str:
    """Return the one string that a pickle consists of, without loading the pickle."""
    strings: list[str] = []
    end = 0
    try:
        for opcode, argument, position in pickletools.genops(content):
            if opcode.name not in _HARMLESS:
                raise DataError(
                    f"{where}: the packed tests hold the pickle instruction {opcode.name}, which "
                    "a string does not need; the row may have been made to run code, so it is "
                    "refused."
                )
            if opcode.name in _STRINGS:
                strings.append(str(argument))
            end = (position or 0) + 1
    except (ValueError, UnicodeDecodeError, IndexError) as err:
        raise DataError(f"{where}: the packed tests are not a whole pickle ({err}).") from err
    if len(strings) != 1 or end != len(content):
        raise DataError(f"{where}: expected one packed string, found {len(strings)}.")
    return strings[0]
