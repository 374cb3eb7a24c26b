"""sentence-transformers: a model of its own parts embeds texts, is trained with its losses, saved and loaded."""

import tempfile

import torch
from _values import fill, total
from sentence_transformers import SentenceTransformer, losses, models, util
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *["the", "a", "cat", "dog", "sat", "ran", "on", "mat", "fast", "slow", "bird", "flew", "over", "house"],
]
TEXTS = ["the cat sat on the mat", "a dog ran fast", "the bird flew over the house", "a slow cat"]


def folder_of_bert(folder):
    tokens = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = Whitespace()
    tokens.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    special = {f"{name}_token": WORDS[i] for name, i in names.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokens, **special).save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    fill(BertModel(BertConfig(**sizes, vocab_size=len(WORDS), max_position_embeddings=32))).save_pretrained(folder)


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        folder_of_bert(folder)
        words = models.Transformer(folder, max_seq_length=16)
        model = SentenceTransformer(modules=[words, models.Pooling(32), models.Normalize()], device="cpu")
        made = model.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False)
        found["embeddings"] = made.tolist()
        found["similar"] = model.similarity(made, made).tolist()
        found["search"] = [[hit["corpus_id"] for hit in hits] for hits in util.semantic_search(made, made, top_k=2)]
        model.eval()
        pairs = [model.tokenize(TEXTS[:2]), model.tokenize(TEXTS[2:])]
        for loss in (losses.MultipleNegativesRankingLoss(model), losses.CosineSimilarityLoss(model)):
            model.zero_grad()
            value = loss(pairs, torch.tensor([1.0, 0.0]))
            value.backward()
            found[type(loss).__name__] = [value.item(), total(next(model.parameters()).grad)]
        model.save(f"{folder}/saved")
        again = SentenceTransformer(f"{folder}/saved", device="cpu")
        found["again"] = bool(torch.allclose(again.encode(TEXTS, convert_to_tensor=True), made, atol=1e-5))
    return found
