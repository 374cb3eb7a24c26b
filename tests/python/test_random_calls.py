"""No call ends the process, hangs, panics, or makes a tensor whose parts disagree; see `random_calls`."""

import os
from pathlib import Path

import pytest
import random_calls

import rgrad

COUNT = int(os.environ.get("RANDOM_CALLS", "40000"))
SEED = int(os.environ.get("RANDOM_CALLS_SEED", "17"))


def test_no_call_ends_the_process_or_hangs_or_panics_or_breaks_a_tensor():
    found = random_calls.faults(SEED, 0, COUNT)
    told = "\n".join(str(fault) for fault in found)
    assert not found, f"run one with: python tests/python/random_calls.py SEED NUMBER\n{told}"


def test_every_entry_of_the_table_is_called():
    seen = {random_calls.call_number(SEED, n).path.split(".")[-1] for n in range(min(COUNT, 15000))}
    missing = {op["name"] for op in random_calls.TABLE if op["name"] not in seen}
    assert len(missing) < len(random_calls.TABLE) / 100, missing


@pytest.mark.parametrize("what", ["ended the process", "hangs", "panicked", "disagrees"])
def test_what_goes_wrong_is_reported_with_its_call(what, monkeypatch, tmp_path):
    # The calls of a process of its own, with one in their midst that does what it must not.
    wrong = {
        "ended the process": "os.abort()",
        "hangs": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(60)",
        "panicked": "raise RuntimeError('rgrad panicked: on purpose')",
        "disagrees": "raise Broken('on purpose')",
    }
    text = Path(random_calls.__file__).read_text()
    before = " " * 16 + "run_call(call)\n"
    text = text.replace(before, " " * 16 + f"if n == 3: {wrong[what]}\n" + before)
    copy = tmp_path / "random_calls.py"
    copy.write_text(text)
    monkeypatch.setattr(random_calls, "__file__", str(copy))
    monkeypatch.setattr(random_calls, "WAITS", 3.0)
    (fault,) = random_calls.faults(SEED, 0, 6)
    assert fault.number == 3 and what in fault.what
    assert str(random_calls.call_number(SEED, 3)) in str(fault)


def test_a_tensor_whose_storage_is_too_small_is_noticed():
    t = rgrad.ones(3)

    class Wrong:
        shape, dtype = (4,), t.dtype
        numel, dim, stride = lambda _: 4, lambda _: 1, lambda _: (1,)
        storage_offset, element_size = lambda _: 0, t.element_size
        untyped_storage = t.untyped_storage

    random_calls.check(t)
    with pytest.raises(random_calls.Broken):
        random_calls.check(Wrong())  # pyright: ignore[reportArgumentType]
