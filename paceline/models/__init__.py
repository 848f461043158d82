"""Models: files, tokenizers and the decoder.

A name goes through `resolve` to a folder or file, and `load_model` makes it a LoadedModel.
"""

from paceline.models.load import Described, LoadedModel, describe, load_model
from paceline.models.progress import Progress
from paceline.models.pull import pull, resolve
from paceline.models.spec import ModelSpec
from paceline.models.template import Message, render_chat
from paceline.models.tokenizer import TextStream, Tokenizer, check_same_vocabulary

__all__ = [
    "Described",
    "LoadedModel",
    "Message",
    "ModelSpec",
    "Progress",
    "TextStream",
    "Tokenizer",
    "check_same_vocabulary",
    "describe",
    "load_model",
    "pull",
    "render_chat",
    "resolve",
]
