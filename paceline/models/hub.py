"""Models of the Hugging Face hub: a whole folder of safetensors, or one GGUF file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DownloadError

# Never pickles, never code: what is fetched can only be parsed.
FOLDER_FILES = ["*.json", "*.safetensors", "tokenizer.model", "*.jinja", "merges.txt"]
_REFERENCE = re.compile(
    r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(?:/(?P<file>\w[\w./-]*\.gguf))?(?:@(?P<revision>\w[\w./-]*))?"
)


@dataclass(frozen=True)
class HubReference:
    """ORG/NAME, ORG/NAME/FILE.gguf, each with or without @REVISION."""

    repo: str
    file: str | None
    revision: str | None

    @classmethod
    def parse(cls, name: str) -> HubReference | None:
        """The reference that `name` is, or None where it is no such thing."""
        match = _REFERENCE.fullmatch(name)
        return cls(**match.groupdict()) if match and ".." not in name else None


def download(reference: HubReference) -> Path:
    """The folder or file, from the hub or from the hub's own cache.

    Raises:
        DownloadError: it cannot be reached, or it is no folder of safetensors.
    """
    from huggingface_hub import hf_hub_download, snapshot_download  # noqa: PLC0415 - slow import

    repo, revision = reference.repo, reference.revision
    try:
        if reference.file:
            return Path(hf_hub_download(repo, reference.file, revision=revision))
        folder = Path(snapshot_download(repo, revision=revision, allow_patterns=FOLDER_FILES))
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"Cannot get '{repo}' from the hub ({_first_line(error)}), and it is no path here; "
            "check the name, your connection and, for a gated model, HF_TOKEN."
        ) from error
    if not (folder / "config.json").is_file():
        raise DownloadError(
            f"'{repo}' holds no config.json; for a GGUF name the file: {repo}/FILE.gguf."
        )
    return folder


def _first_line(error: Exception) -> str:
    """What the error says first, or what it is."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
