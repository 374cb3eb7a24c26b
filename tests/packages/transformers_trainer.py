"""transformers: its Trainer trains a BERT, evaluates, saves, and resumes from a checkpoint."""

import tempfile

import torch
from _values import fill
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        ids = (torch.arange(6) * 7 + index * 5) % 97 + 3
        return {"input_ids": ids, "attention_mask": torch.ones(6, dtype=torch.long), "labels": torch.tensor(index % 2)}


class InTurn(Trainer):
    """A trainer that takes the examples in order, as random numbers are the library's own."""

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def model():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return fill(BertForSequenceClassification(BertConfig(**sizes, **off, vocab_size=100, max_position_embeddings=16)))


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=8,
            num_train_epochs=2,
            learning_rate=0.01,
            logging_steps=1,
            save_steps=4,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            gradient_accumulation_steps=1,
            warmup_steps=2,
            seed=3,
        )
        set_seed(3)
        trainer = InTurn(model=model(), args=arguments, train_dataset=Texts(), eval_dataset=Texts())
        trainer.train()
        found["losses"] = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        found["norms"] = [float(entry["grad_norm"]) for entry in trainer.state.log_history if "grad_norm" in entry]
        found["evaluated"] = trainer.evaluate()["eval_loss"]
        found["predicted"] = trainer.predict(Texts()).predictions[:4].tolist()
        again = InTurn(model=model(), args=arguments, train_dataset=Texts(), eval_dataset=Texts())
        again.train(resume_from_checkpoint=f"{folder}/checkpoint-4")
        found["resumed"] = again.evaluate()["eval_loss"]
        assert get_last_checkpoint(folder).endswith("checkpoint-8")
    return found
