"""A slice of the model zoo: small configurations of one architecture of each family, in inference and in training.

`make zoo` and its kin run the whole of it; docs/ZOO.md has what comes of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from comparing import check_inference, check_training

pytestmark = pytest.mark.usefixtures("connection")

Built = tuple[torch.nn.Module, dict[str, Any]]

WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tokens(*sizes: int) -> torch.Tensor:
    return torch.randint(3, 60, sizes)


def text() -> dict[str, Any]:
    """Two sentences, of which the second one is padded at its end; the padding is not learnt from."""
    ids = tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def bert() -> Built:
    config = transformers.BertConfig(vocab_size=64, max_position_embeddings=16, **WIDTH, **NO_DROPOUT)
    return transformers.BertForMaskedLM(config), text()


def deberta() -> Built:
    """Attention by relative positions, gathered."""
    config = transformers.DebertaV2Config(
        vocab_size=64, max_position_embeddings=16, relative_attention=True, pos_att_type=["c2p", "p2c"], **WIDTH, **NO_DROPOUT
    )  # fmt: skip
    return transformers.DebertaV2ForMaskedLM(config), text()


def llama() -> Built:
    config = transformers.LlamaConfig(vocab_size=64, num_key_value_heads=2, use_cache=False, **WIDTH)
    return transformers.LlamaForCausalLM(config), text()


def mixtral() -> Built:
    """A mixture of experts: sorted tokens and ragged products."""
    config = transformers.MixtralConfig(
        vocab_size=64, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, use_cache=False, **WIDTH
    )  # fmt: skip
    return transformers.MixtralForCausalLM(config), text()


def mamba() -> Built:
    """A state-space model: its scan is a loop over time, unrolled."""
    config = transformers.MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4, use_cache=False)
    ids = tokens(2, 6)
    return transformers.MambaForCausalLM(config), {"input_ids": ids, "labels": ids}


def t5() -> Built:
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_decoder_layers=1, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, use_cache=False,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config), {**text(), "labels": tokens(2, 5)}


def whisper() -> Built:
    """Audio: a spectrogram through convolutions into an encoder and a decoder."""
    config = transformers.WhisperConfig(
        vocab_size=64, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=12, max_target_positions=12,
        dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config), {"input_features": torch.randn(2, 8, 24), "labels": tokens(2, 5)}


def swin() -> Built:
    """Shifted windows: rolls, and relative positions."""
    config = transformers.SwinConfig(
        image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4, drop_path_rate=0.0, num_labels=5
    )  # fmt: skip
    model = transformers.SwinForImageClassification(config)
    return model, {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([1, 4])}


def clip() -> Built:
    """Text and images, compared by their cosine."""
    vision = {"image_size": 8, "patch_size": 4, **WIDTH}
    sizes = {"vocab_size": 64, "max_position_embeddings": 16, "eos_token_id": 2, **WIDTH}
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=sizes, vision_config=vision, projection_dim=16))
    return model, {**text(), "labels": None, "pixel_values": torch.randn(2, 3, 8, 8), "return_loss": True}


def shufflenet() -> Built:
    """Grouped convolutions and batch statistics of torchvision."""
    from torchvision.models import ShuffleNetV2

    model = ShuffleNetV2([1, 1, 1], [8, 16, 32, 32, 32], num_classes=7)
    return model, {"x": torch.randn(4, 3, 48, 48)}


FAMILIES = {
    "encoder": bert,
    "relative-encoder": deberta,
    "decoder": llama,
    "experts": mixtral,
    "state-space": mamba,
    "encoder-decoder": t5,
    "audio": whisper,
    "windowed-vision": swin,
    "vision-and-text": clip,
    "convolutional-vision": shufflenet,
}


@pytest.fixture(params=FAMILIES)
def built(request: pytest.FixtureRequest) -> Built:
    build: Callable[[], Built] = FAMILIES[request.param]
    torch.manual_seed(0)
    model, inputs = build()
    # Fresh biases and norms are zeros and ones, behind which a mistake can hide.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model, {name: value for name, value in inputs.items() if value is not None}


def test_inference(built: Built) -> None:
    check_inference(*built)


def test_training(built: Built) -> None:
    check_training(*built)
