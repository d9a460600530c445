"""`capsule show` names what ran of a command that a user sealed."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import User, write_manifest, write_script


def test_commands_data_and_paper_are_named(author: User) -> None:
    write_script(author.folder)
    (author.folder / "corpus").write_bytes(b"text")
    digest = author.json("data", "hash", "corpus")["digest"]
    manifest = write_manifest(
        author.folder,
        paper={"doi": "10.1000/182"},
        seeds=[1],
        datasets={"corpus": {"path": "corpus", "digest": digest}},
        benchmarks=[
            {
                "id": "tiny",
                "command": ["python3", "tiny.py", "two words"],
                "inputs": ["tiny.py"],
                "datasets": ["corpus"],
                "metrics": {"loss": {"direction": "lower"}},
            }
        ],
    )
    assert author.run("run", manifest, "-o", Path("a.zip")).returncode == 0
    shown = " ".join(author.run("show", "a.zip").stdout.split())
    assert "benchmark tiny python3 tiny.py 'two words'" in shown
    assert "data corpus: 4 bytes, sha256:" in shown
    assert "paper https://doi.org/10.1000/182" in shown
