With data = "own" no sample leaves a node. Without secure aggregation (`[secure_aggregation]` in `config.toml`)
the server sees what each client sends:

- From every client: how many samples it trains on, its trained model, how many steps that took, and its loss
  on one batch before and after. A model alone reveals much about its data: under losses that leave out the
  classes that a client lacks (tce, wsm), the classifier's rows of those classes come back unchanged.
- `validate=true` on a node: how many validation samples it has of each class, how many of them the model gets
  right, and their summed loss.
- Method flashback: how many samples of each class it trains on; with `knowledge = "relative"` the shares,
  with `"probabilities"` neither.
- Method labelwise: which classes it trains on.
- Methods scaffold and fedcurv: further vectors as long as the model, computed from its data. Methods fednova
  and fedcm: a number for its work.
- `training.single_class = "skip"`: a skipped client has a single class; not which one.
- An error on a node: its text, which may name paths, labels and classes.
