"""How byte-level BPE cuts a text before it merges, by the name GGUF's `tokenizer.ggml.pre` gives.

The patterns are those of the models' own tokenizer.json files.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

from paceline.errors import UnsupportedModelError

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|"
    rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_TEKKEN = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*|\p{{N}}|"
    rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_TAIL}"
)
_GPT4O = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTION}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTION}?|"
    rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_TAIL}"
)


@dataclass(frozen=True)
class PreTokenizer:
    """One way to cut; the pieces then go to the byte alphabet."""

    pattern: str
    single_digits: bool = False
    nfc: bool = False
    """Compose the text (Unicode NFC) first."""
    ignore_merges: bool = False
    """A piece that is a token as it stands is not merged."""
    add_bos: bool = False
    """What a file means that does not say."""

    def build(self) -> pre_tokenizers.PreTokenizer:
        """The cutter of the `tokenizers` library."""
        digits = [pre_tokenizers.Digits(individual_digits=True)] if self.single_digits else []
        cut = pre_tokenizers.Split(Regex(self.pattern), behavior="isolated")
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*digits, cut, to_bytes])

    def normalizer(self) -> normalizers.Normalizer | None:
        """What comes before the cut."""
        return normalizers.NFC() if self.nfc else None


_BY_KIND = {
    PreTokenizer(_GPT2): "default gpt-2 phi-2 olmo",
    PreTokenizer(_GPT2, single_digits=True): "smollm starcoder refact",
    PreTokenizer(_LLAMA3): "dbrx smaug-bpe",
    PreTokenizer(_LLAMA3, ignore_merges=True, add_bos=True): "llama3 llama-v3 llama-bpe falcon3",
    PreTokenizer(_QWEN2, nfc=True): "qwen2 deepseek-r1-qwen",
    PreTokenizer(_TEKKEN, ignore_merges=True, add_bos=True): "tekken",
    PreTokenizer(_GPT4O): "gpt-4o llama4",
}
_BY_NAME = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}


def pre_tokenizer(name: str, where: str = "The model") -> PreTokenizer:
    """The cut of that name; raises UnsupportedModelError, naming `where` it stands, for others."""
    if name not in _BY_NAME:
        raise UnsupportedModelError(
            f"{where}: no support for the pre-tokenizer '{name:.80}' (tokenizer.ggml.pre); "
            f"known: {', '.join(sorted(_BY_NAME))}."
        )
    return _BY_NAME[name]
