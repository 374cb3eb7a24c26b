"""Files of objects that are no weights: who may load them, and what classes come back."""

import io
import pickle

import pytest

import rgrad as torch

FORCED, RELEASED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


class Ordinary:
    """A class that a file of weights must not name."""


def file_of(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("word", ["1", "y", "Yes", "TRUE"])
def test_the_environment_lets_calls_without_weights_only_load_any_object(monkeypatch, word):
    monkeypatch.setenv(RELEASED, word)
    with pytest.warns(UserWarning, match=RELEASED) as warned:
        assert isinstance(torch.load(file_of(Ordinary())), Ordinary)
    assert warned[0].filename == __file__
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file_of(Ordinary()), weights_only=True)


@pytest.mark.parametrize("word", ["0", "", "no", "on"])
def test_other_words_in_the_environment_change_nothing(monkeypatch, word):
    monkeypatch.setenv(RELEASED, word)
    monkeypatch.setenv(FORCED, word)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file_of(Ordinary()))
    assert isinstance(torch.load(file_of(Ordinary()), weights_only=False), Ordinary)


def test_the_environment_restricts_calls_that_ask_for_any_object(monkeypatch):
    monkeypatch.setenv(FORCED, "1")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file_of(Ordinary()), weights_only=False)
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(file_of(Ordinary()), pickle_module=pickle)
    monkeypatch.setenv(RELEASED, "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        torch.load(file_of(torch.ones(2)), weights_only=True)


def test_a_module_for_pickles_means_any_object():
    assert isinstance(torch.load(file_of(Ordinary()), pickle_module=pickle), Ordinary)
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(file_of(Ordinary()), pickle_module=pickle, weights_only=True)
