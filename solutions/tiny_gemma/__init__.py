"""How the exercises' tiny Gemma was made: the text, the tokenizer, the training and its card."""
