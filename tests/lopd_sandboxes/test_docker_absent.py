"""Without a Docker engine, or with one that must not be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from lopd_sandboxes.docker import DockerSandbox

from lopd_gym.errors import InfrastructureError


def test_no_engine_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(InfrastructureError, match="start Docker, or name its socket"):
        DockerSandbox()
    probe = DockerSandbox.probe()
    assert probe.isolation is None
    assert "No Docker engine answers" in probe.detail


def test_an_engine_on_an_open_network_port_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    with pytest.raises(InfrastructureError, match="anyone on the network can use as root"):
        DockerSandbox()
