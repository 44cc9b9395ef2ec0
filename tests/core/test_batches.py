"""Which samples make up each step of a client's training."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eunoe.config.options import Training
from eunoe.core.batches import count_trained_samples, plan_batches, plan_steps
from eunoe.core.rng import generator


@given(
    st.integers(1, 50),
    st.integers(0, 20),
    st.integers(1, 4),
    st.sampled_from(["keep", "drop"]),
    st.booleans(),
)
def test_every_epoch_sees_every_kept_sample_once(size, batch_size, epochs, last, at_least_two):
    training = Training(epochs=epochs, batch_size=batch_size, last_batch=last)
    batches = plan_batches(size, training, generator(0, "test"), at_least_two)
    batch = min(batch_size or size, size)
    seen = np.bincount(np.concatenate(batches), minlength=size)
    if last == "keep" or size % batch == 0:
        assert (seen == epochs).all()
        if not at_least_two:
            assert len(batches) == epochs * -(-size // batch)
    else:
        assert len(batches) == epochs * (size // batch)
        assert (seen <= epochs).all()
    if at_least_two and size > 1 and batch > 1:
        assert min(len(part) for part in batches) > 1


def test_steps_count_steps_and_epochs_may_be_drawn():
    assert len(plan_batches(10, Training(steps=7, batch_size=4), generator(0, "a"))) == 7
    drawn = {
        len(plan_batches(8, Training(epochs=(1, 4), batch_size=8), generator(0, "a", client=k)))
        for k in range(40)
    }
    assert drawn == {1, 2, 3, 4}


@given(
    st.integers(1, 60),
    st.integers(0, 20),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from([{"epochs": 3}, {"epochs": (1, 4)}, {"steps": 3}, {"steps": 11}]),
)
def test_what_the_planned_steps_hold_follows_from_their_number(size, batch_size, last_batch, length) -> None:
    training = Training(batch_size=batch_size, last_batch=last_batch, **length)
    # With batch normalization, where so many steps may be two plans, for whole epochs only.
    for joined in (False, True) if length == {"epochs": 3} else (False,):
        positions, lengths = plan_steps(size, training, generator(0, "test"), joined)
        assert count_trained_samples(size, len(lengths), training) == len(positions)
