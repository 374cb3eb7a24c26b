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


class Marked(torch.Tensor):
    """A class of tensors with attributes."""


class Described(torch.Tensor):
    def __getstate__(self):
        return {"sum": float(self.sum())}

    def __setstate__(self, state):
        self.found = state


class Slotted(torch.Tensor):
    __slots__ = ("mark",)


class Reduced(torch.Tensor):
    def __reduce_ex__(self, protocol):
        return list, ((1, 2),)


def loaded(value, **options):
    return torch.load(file_of(value), **options)


def test_a_tensor_of_a_class_keeps_its_class_and_attributes_in_a_file():
    x = torch.arange(3.0).as_subclass(Marked)
    x.names = ["a", "b"]
    both = loaded({"x": x, "view": x[1:]}, weights_only=False)
    assert type(both["x"]) is Marked and vars(both["x"]) == {"names": ["a", "b"]}
    assert type(both["view"]) is Marked and vars(both["view"]) == {}
    both["x"][1] = 7
    assert both["view"].tolist() == [7, 2]


@pytest.mark.parametrize("options", [{"requires_grad": True}, {"dtype": torch.uint16}, {"device": "meta"}])
def test_any_tensor_of_a_class_keeps_it(options):
    x = torch.ones(2, **options).as_subclass(Marked)
    again = loaded(x, weights_only=False)
    assert type(again) is Marked and again.dtype == x.dtype and again.device == x.device
    assert again.requires_grad == x.requires_grad


def test_classes_of_tensors_in_files_of_weights_must_be_allowed():
    x = torch.ones(2).as_subclass(Marked)
    x.mark = 1
    with pytest.raises(pickle.UnpicklingError, match="Marked was not an allowed global"):
        loaded(x)
    with torch.serialization.safe_globals([Marked, Described]):
        assert type(loaded(x)) is Marked and loaded(x).mark == 1
        assert loaded(torch.ones(2).as_subclass(Described)).found == {"sum": 2.0}


def test_attributes_of_plain_tensors_and_parameters_are_kept():
    x, p, b = torch.ones(2), torch.nn.Parameter(torch.ones(2), requires_grad=False), torch.nn.Buffer(torch.ones(2))
    x.note, p._no_weight_decay = {"a": (1, None)}, True
    for options in ({}, {"weights_only": False}):
        again = loaded([x, p, b], **options)
        assert [type(t) for t in again] == [torch.Tensor, torch.nn.Parameter, torch.Tensor]
        assert vars(again[0]) == {"note": {"a": (1, None)}} and vars(again[1]) == {"_no_weight_decay": True}
        assert isinstance(again[2], torch.nn.Buffer) and not again[1].requires_grad
    assert vars(pickle.loads(pickle.dumps(p))) == {"_no_weight_decay": True}


def test_a_class_says_what_is_pickled_of_it():
    assert loaded(torch.ones(2).as_subclass(Described), weights_only=False).found == {"sum": 2.0}
    assert loaded(torch.ones(2).as_subclass(Reduced), weights_only=False) == [1, 2]
    x = torch.ones(2).as_subclass(Slotted)
    x.mark, x.note = 3, 4
    again = loaded(x, weights_only=False)
    assert type(again) is Slotted and (again.mark, again.note) == (3, 4)
    with torch.serialization.safe_globals([Slotted]):
        assert (loaded(x).mark, loaded(x).note) == (3, 4)


def test_a_file_of_weights_cannot_give_a_tensor_another_class_or_other_state():
    rebuild = torch.serialization._weights_unpickler.rebuild_from_type
    plain = torch.serialization._weights_unpickler.TensorType()
    meta = torch.serialization._weights_unpickler.rebuild_meta_tensor
    shape = (torch.float32, (2,), (1,), False)
    assert rebuild(meta, plain, shape, {"a": 1}).a == 1
    for function, kind, state in (
        (torch.load, plain, {}),
        (meta, Marked, {}),
        (meta, dict, {}),
        (meta, plain, [1]),
        (meta, plain, {1: 2}),
    ):
        with pytest.raises(pickle.UnpicklingError, match="malformed tensor"):
            rebuild(function, kind, shape, state)
