"""gpt2 of transformers, untrained."""

from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

# of one sample: the tokens of a text, and of each the one that is due next
inputs = {
    "tokens": {"below": 1000, "shape": (32,)},
    "label": {"below": 1000, "shape": (32,)},
}
quality = "accuracy"
# small ones, since many of the library's own take gigabytes: without them it is of the usual size
sizes = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    **dict.fromkeys(["pad_token_id", "bos_token_id", "eos_token_id"], 0),
}


class Scores(nn.Module):
    """The scores alone, of all that transformers' model yields: (batch, words, length)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        """Return the scores."""
        return self.model(tokens, use_cache=False).logits.transpose(1, 2)


def network():
    config = AutoConfig.for_model("gpt2", **sizes)
    return Scores(AutoModelForCausalLM.from_config(config))
