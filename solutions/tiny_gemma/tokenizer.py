"""A tokenizer whose tokens are bytes: any text in any language, no vocabulary to learn."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

# The same ids as in Gemma's own tokenizer.
SPECIAL = {"<pad>": 0, "<eos>": 1, "<bos>": 2}
VOCAB = len(SPECIAL) + 256


def byte_letters() -> list[str]:
    """The letter that byte-level tokenizers write for each byte: itself where it is printable."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte of UTF-8, after `<bos>`; byte b has the id b + 3."""
    vocab = SPECIAL | {letter: len(SPECIAL) + b for b, letter in enumerate(byte_letters())}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", SPECIAL["<bos>"])]
    )
    made: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>"
    )
    return made
