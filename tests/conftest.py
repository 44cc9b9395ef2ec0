"""Settings of all tests: one thread, repeatable examples."""

import hypothesis
import torch

hypothesis.settings.register_profile("eunoe", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.load_profile("eunoe")
torch.set_num_threads(1)
