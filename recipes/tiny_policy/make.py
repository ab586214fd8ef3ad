"""Make the tiny policy and its composer: what ships in ``lopd_gym/policy/tiny``.

    python -m recipes.tiny_policy.make [--to FOLDER] [--seed 0]

One process and one thread; about 40 CPU-minutes and 1.5 GB. ``--seed`` (0 for what ships) fixes
the first weights, the order of the demonstrations and everything drawn in them. The same seed on
the same machine and library versions gives the same weights.

Three steps, each in its own file:

1. `tokenizer`: bytes, and one token for every word of the starter suite.
2. `policy`: a copying drill, then demonstrations of training tasks (`demonstrations`).
3. `composer`: with the policy frozen, a composer learns to turn traces into latents.

What is built in, and should be known to whoever reads results of this policy:

- **Its habits are designed.** Without a memory it gets each house rule wrong with a probability
  that this recipe chose (`demonstrations.WRONG`). So there is something to learn, and how much of
  it is known in advance.
- **It has been taught to read memories**, as text and as the composer's latents, from the same
  domain, and to ignore those of other domains. A model of this size would not do it by itself.
- **The true house rules come in at three places only**: as the other side of those habits, in the
  tools' answers to a broken rule, and in half of the policy's text memories (the other half shows
  random rules, in worlds where those hold). The composer learns from random rules alone.

What came of it, on 256 held-out tasks (``python -m recipes.tiny_policy.evaluate``; standard errors
up to .03):

    memory                  greedy  sampled
    none                      .238     .285
    text, own domain         1.000    1.000
    text, other domain        .207     .309
    latents, own domain       .996     .969
    latents, other domain     .160     .270
    latents, untrained        .176     .273
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import torch

from lopd_gym.policy.loading import TINY_FOLDER
from recipes.tiny_policy.composer import make_composer, save_composer
from recipes.tiny_policy.policy import make_policy, save_policy
from recipes.tiny_policy.tokenizer import build_tokenizer
from recipes.tiny_policy.train import Report


def main() -> None:
    """Make both and replace the folder when all is done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=TINY_FOLDER)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    unfinished = given.to.with_name(f".{given.to.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    tokenizer = build_tokenizer()
    model = make_policy(tokenizer, given.seed, _printer("policy"))
    save_policy(model, tokenizer, unfinished)
    composer = make_composer(model, tokenizer, given.seed, _printer("composer"))
    save_composer(composer, unfinished)
    shutil.rmtree(given.to, ignore_errors=True)
    unfinished.rename(given.to)


def _printer(step: str) -> Report:
    """Return a report that prints a line for every two percent."""
    started, printed = time.process_time(), -1

    def report(per_mille: int, loss: float) -> None:
        nonlocal printed
        if per_mille // 20 != printed:
            printed = per_mille // 20
            spent_s = time.process_time() - started
            print(
                f"{step} {per_mille / 10:5.1f} % loss {loss:.4f} {spent_s:5.0f} CPU-s", flush=True
            )

    return report


if __name__ == "__main__":
    main()
