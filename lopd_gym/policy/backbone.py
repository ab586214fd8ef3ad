"""One copy of a language model's weights, and several views of it.

``base`` is the frozen model: the teacher. A `view` is a second module tree over the same tensors,
into which an adapter can be injected without ever touching the teacher's pass; not even gradient
checkpointing, which runs a forward pass again later, can mix them up. ``student`` is such a view
with a LoRA adapter, or a full trainable copy.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from lopd_gym.chat import FORMAT_FILE, ChatFormat, format_for
from lopd_gym.errors import DataError, UsageError
from lopd_gym.policy.loading import find_source, load_model, load_tokenizer, quiet
from lopd_gym.policy.lora import add_lora, merged_weights

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

Weights = Literal["student", "base"]


class StudentConfig(BaseModel):
    """What is trained: a LoRA adapter, or all weights.

    Attributes:
        kind: ``"lora"``, or ``"full"`` for a float32 copy of every weight.
        rank: Rank of the adapter; unused by a full student.
        alpha: Scale of the adapter: its output is multiplied by alpha / rank.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["lora", "full"] = "lora"
    rank: int = Field(default=64, ge=1)
    alpha: float = Field(default=128.0, gt=0)


class Backbone:
    """A frozen base model, its tokenizer and chat format, and the student.

    Attributes:
        base: The frozen model; never wrapped, never changed.
        student: The trainable model, of the same class as ``base``.
        student_version: How often the student was updated; engines read it to know when their
            copy of the weights is old.
    """

    def __init__(
        self,
        base: PreTrainedModel,
        tokenizer: Any,
        chat: ChatFormat,
        *,
        student: StudentConfig | None = None,
        seed: int = 0,
        source: str | None = None,
    ) -> None:
        self.base = base
        self.source = source
        self.tokenizer = tokenizer
        self.chat = chat
        self.student_config = student or StudentConfig()
        self.student_version = 0
        self._end_of_turn_id = _token_id(tokenizer, chat)
        self.student, self._trainable = self._make_student(seed)

    @classmethod
    def load(
        cls,
        source: str,
        *,
        student: StudentConfig | None = None,
        device: str = "auto",
        chat_format: str | None = None,
        seed: int = 0,
    ) -> Backbone:
        """Load a model.

        Args:
            source: ``"tiny"``, a model folder, a GGUF file, or a hub id.
            student: What is trained.
            device: A torch device, or ``"auto"`` for a GPU where there is one.
            chat_format: A chat format's name; by default it is found from the model.
            seed: Seed of the adapter's starting weights.

        Raises:
            DataError: There is no whole model at the source.
            UsageError: The chat format is unknown or unfit, or the device is.
        """
        where = find_source(source)
        tokenizer = load_tokenizer(where)
        base = load_model(where, _device(device))
        chat = format_for(
            chat_format,
            folder=where.folder,
            model_type=str(base.config.model_type),
            vocabulary=tokenizer.get_vocab(),
            template=tokenizer.chat_template,
        )
        return cls(base, tokenizer, chat, student=student, seed=seed, source=source)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.base.device

    @property
    def hidden_size(self) -> int:
        """Size of an embedding."""
        return int(self.base.get_input_embeddings().weight.shape[1])  # type: ignore[index]

    @property
    def end_of_turn_id(self) -> int:
        """Id of the token that ends an assistant turn."""
        return self._end_of_turn_id

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn: the end-of-turn token and the end of text."""
        eos = self.tokenizer.eos_token_id
        return frozenset({self._end_of_turn_id} | ({eos} if eos is not None else set()))

    def encode(self, text: str) -> list[int]:
        """Tokenise text that a chat format rendered."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: list[int]) -> str:
        """Return the text of sampled ids, special tokens included."""
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def view(self) -> PreTrainedModel:
        """Return a new module tree that shares all tensors of ``base``."""
        tensors = [*self.base.parameters(), *self.base.buffers()]
        return copy.deepcopy(self.base, memo={id(t): t for t in tensors})

    # -- the student -------------------------------------------------------------------------

    def student_parameters(self) -> list[nn.Parameter]:
        """Return what is trained."""
        return list(self._trainable.values())

    def student_state(self) -> dict[str, torch.Tensor]:
        """Return copies of what is trained, on the CPU."""
        return {name: p.detach().cpu().clone() for name, p in self._trainable.items()}

    def load_student_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore what `student_state` returned; raises `DataError` if it does not fit."""
        shapes = {name: tuple(p.shape) for name, p in self._trainable.items()}
        found = {name: tuple(t.shape) for name, t in state.items()}
        if shapes != found:
            raise DataError(
                f"The saved student does not fit: expected {len(shapes)} tensors of this student "
                f"({self.student_config}), found {len(found)}; load it with the config it had."
            )
        with torch.no_grad():
            for name, parameter in self._trainable.items():
                parameter.copy_(state[name])
        self.mark_updated()

    def mark_updated(self) -> None:
        """Say that the student's weights have changed."""
        self.student_version += 1

    def merged_student_weights(self) -> dict[str, torch.Tensor]:
        """Return the student's weights as those of a model without adapters.

        Names are those of ``base.state_dict()``; weights without an adapter are not copied.
        """
        with torch.no_grad():
            if self.student_config.kind == "full":
                return {n: t.detach() for n, t in self.student.state_dict().items()}
            return {**self.base.state_dict(), **merged_weights(self.student)}

    def weights(self, which: Weights) -> dict[str, torch.Tensor]:
        """Return the weights that play, by the names of ``base.state_dict()``."""
        return self.merged_student_weights() if which == "student" else self.base.state_dict()

    def export_student(self, folder: Path) -> None:
        """Write the student as an ordinary Hugging Face folder, whole or not at all.

        It loads with ``AutoModelForCausalLM`` alone. An existing folder is replaced.

        Raises:
            UsageError: The folder cannot be written.
        """
        folder = folder.absolute()
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as scratch:
                written = Path(scratch) / "new"
                self._write(written)
                if folder.exists():
                    os.replace(folder, Path(scratch) / "old")
                os.replace(written, folder)
        except OSError as err:
            raise UsageError(f"Cannot write the student to '{folder}': {err}.") from err

    def _write(self, folder: Path) -> None:
        dtype = self.base.dtype
        state = {n: t.to(dtype) for n, t in self.merged_student_weights().items()}
        model = copy.copy(self.base)
        model.generation_config = copy.deepcopy(self.base.generation_config)
        if model.generation_config is not None:
            model.generation_config.eos_token_id = sorted(self.stop_ids)
        with quiet():
            model.save_pretrained(folder, state_dict=state)
        self.tokenizer.save_pretrained(folder)
        named = json.dumps({"chat_format": self.chat.name}, indent=2)
        (folder / FORMAT_FILE).write_text(named + "\n", encoding="utf-8")

    def _make_student(self, seed: int) -> tuple[PreTrainedModel, dict[str, nn.Parameter]]:
        config = self.student_config
        if config.kind == "full":
            student = copy.deepcopy(self.base)
            student.to(dtype=torch.float32).requires_grad_(True)  # type: ignore[call-arg]
        else:
            student = self.view()
            add_lora(student, rank=config.rank, alpha=config.alpha, seed=seed)
        trainable = {n: p for n, p in student.named_parameters() if p.requires_grad}
        return student, trainable


def _token_id(tokenizer: Any, chat: ChatFormat) -> int:
    ids = tokenizer.encode(chat.end_of_turn, add_special_tokens=False)
    if len(ids) != 1:
        raise UsageError(
            f"Chat format '{chat.name}' needs '{chat.end_of_turn}' as one token, and this "
            "tokenizer has no such token: choose another --chat-format."
        )
    return int(ids[0])


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as err:
        raise UsageError(f"No device '{name}' here: use 'auto', 'cpu' or 'cuda'.") from err
    return device
