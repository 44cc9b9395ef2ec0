"""The papers' tables and figures as experiments that `eunoe papers` lists and `eunoe reproduce` runs.

Here are the experiments (TOML files in experiments/, read by `loader`), the measures and claims, the judge,
the stored runs and their tables. What a method computes is in eunoe.methods, how runs are executed in
eunoe.search. The library never imports this package: the two commands are entry points. The type to know is
`experiment.Experiment`.
"""
