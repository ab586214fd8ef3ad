"""Where the EnvScaler release lies on the Hugging Face hub, and which version of it is meant."""

from __future__ import annotations

from lopd_gym.data import DataFile, DataSet

ENVIRONMENTS = DataFile(
    repo_id="XXHStudyHard/EnvScaler-191-Env",
    revision="3d30c6ac2446c06b79d727f196b84df90cc9cb69",
    filename="191_env_metadata_processed.json",
    sha256="600fa6d9613e3a104807edbff863d26ea48aeb1d5d3ef758c0e6f109f04f49bd",
)
SCENARIOS = DataFile(
    repo_id="XXHStudyHard/EnvScaler-RL-Scenario",
    revision="a14061538b0ffd3e84d44edf40fbe67477f83552",
    filename="envscaler_rl_scenario_metadata.json",
    sha256="99c05a81710da5adc81453a05f166023f2cd3235a03a9eb8b5736ba8c7c2abe8",
)
DATASET = DataSet(
    name="envscaler",
    summary="191 tool environments and 2,550 scored tasks",
    license="MIT",
    source="https://github.com/RUC-NLPIR/EnvScaler",
    files=(ENVIRONMENTS, SCENARIOS),
)
