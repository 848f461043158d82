"""The byte-level BPE of the pair, and the corpus as token ids."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .corpus import Document
from .recipe import CONTEXT, EOS, VOCAB

Ids = npt.NDArray[np.int64]
Breaks = dict[int, tuple[int, int]]

# A line break takes the next line's indentation along, so a Python line starts with one token.
# A word takes one leading blank or dot. Unmatched text stays in place: nothing is ever lost.
SPLIT = (
    r"(?:\r?\n)+ *|\t+|"
    r"[ .]?[\p{L}\p{M}_]+|"
    r" ?\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{M}\p{N}_]+|"
    r" +(?= \S)| +|\s"
)
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": EOS,
    "add_bos_token": False,
    "add_eos_token": False,
    "clean_up_tokenization_spaces": False,
    "model_max_length": CONTEXT,
}


def train(documents: list[Document]) -> Tokenizer:
    """Learn the merges from the training split."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((doc.text for doc in documents if not doc.held_out), trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the two files a Hugging Face folder holds."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    text = json.dumps(TOKENIZER_CONFIG, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def breaks(tokenizer: Tokenizer) -> Breaks:
    """Every id that is a line break with indentation -> the break's id, the indentation's id."""
    found: Breaks = {}
    vocabulary = tokenizer.get_vocab()
    for token, whole in vocabulary.items():
        indent = token.lstrip("Ċ")
        line_end = token[: len(token) - len(indent)]
        if line_end and indent and not indent.strip("Ġ") and indent in vocabulary:
            found[whole] = (vocabulary[line_end], vocabulary[indent])
    return found


def encode(tokenizer: Tokenizer, documents: list[Document], held_out: bool) -> Ids:
    """One split as one run of ids; the end-of-text id closes each document."""
    eos = tokenizer.token_to_id(EOS)
    assert eos is not None
    texts = [doc.text for doc in documents if doc.held_out == held_out]
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(texts):
        ids += [*encoding.ids, eos]
    return np.array(ids, dtype=np.int64)
