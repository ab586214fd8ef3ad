"""The tiny policy's tokenizer: bytes, and one token for every word of the starter suite.

Any text can be encoded, byte by byte at worst. What a tiny model must copy (names, things, ids,
tool names) is the same token wherever it stands: in a task, in a call's JSON and in a trace.
"""

from __future__ import annotations

import re

from lopd_envs.envscaler.starter import vocabulary
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lopd_gym.bank.trace import TRACE_HEADER

END, PAD = "<|im_end|>", "<|endoftext|>"

GLUE = (
    "<|im_start|>system\n",
    "\n<|im_start|>user\n",
    "\n<|im_start|>tool\n",
    "\n<|im_start|>assistant\n",
    "\nTools: ",
    '<tool_call>{"name":"',
    '","arguments":{"',
    '"}}</tool_call>',
    "}}</tool_call>",
    '":"',
    '","',
    '":',
    ',"',
    '{"id":"',
    '"}',
    '{"ok":true}',
    '{"error":"',
    '{"status":"flagged","error":"house rule: ',
    "; ",
    ") -> ",
    ") ",
    "=",
    '="',
    '",',
    ",status=",
    "ok=True",
    "status=flagged,error=house rule: ",
    "id=",
    'id="',
    ' "',
    '".',
    '" ',
    TRACE_HEADER + "\n",
    "Task to solve:\n",
    "\n\nReference past trajectory:\n",
    "Example:\n",
    "Your task:\n",
    "Task Completed",
    "1. ",
    *(f"\n{step}. " for step in range(2, 13)),
)
"""Strings between the words: each is one token."""

_NUMBERS = tuple(str(number) for number in range(10, 100))

CHAT_TEMPLATE = """\
{%- for message in messages -%}
{%- if not loop.first %}{{ '\\n' }}{% endif -%}
<|im_start|>{{ message.role }}\n{{ message.content }}
{%- if message.role == 'system' and tools %}{{ '\\nTools:' }}
{%- for tool in tools %} {{ tool.function.name }}({{ tool.function.parameters.properties.keys()
 | join(',') }}){% endfor %}{% endif -%}
{%- for call in message.tool_calls or [] -%}
<tool_call>{"name":"{{ call.function.name }}","arguments":
{{- call.function.arguments | tojson(separators=(',', ':')) }}}</tool_call>
{%- endfor -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif -%}
"""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; it depends on the starter suite's words and on nothing else."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(END, special=True), AddedToken(PAD, special=True)])
    core.add_tokens([AddedToken(piece, normalized=False) for piece in pieces()])
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        model_max_length=8_192,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def pieces() -> list[str]:
    """Return all strings that are one token, in a fixed order.

    Words come bare and after a space, because running text has them after a space.
    """
    words = [w for w in vocabulary() if len(w) > 1]
    spaced = [f" {w}" for w in words if re.fullmatch("[a-z]+", w)]
    return list(dict.fromkeys([*GLUE, *words, *spaced, *_NUMBERS]))
